package Pinyon::Iterating;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(reftype);

use Pinyon::Error ();

# How many keys are asked for at once.
use constant CHUNK => 100;

# Reads any number of values, a chunk of keys at a time. `keys`: an array, or a sub that returns the next key, or nothing.
sub new {
    my ( $class, $client, $keys, %options ) = @_;
    my $kind = reftype( $keys // q{} ) // q{};
    if ( $kind ne 'ARRAY' && $kind ne 'CODE' ) {
        Pinyon::Error::Usage->throw('iter_multi takes a reference to an array of keys, or to a sub that returns the next one');
    }
    my ( $chunk, $failed ) = ( delete $options{chunk} // CHUNK, delete $options{failed} );
    if ( my ($unknown) = sort keys %options ) {
        Pinyon::Error::Usage->throw(qq{iter_multi has no option "$unknown"});
    }
    if ( $chunk !~ /\A[1-9][0-9]*\z/ ) {
        Pinyon::Error::Usage->throw("chunk is how many keys are asked for at once, at least 1, not $chunk");
    }
    my @left = $kind eq 'ARRAY' ? @{$keys}                                : ();
    my $next = $kind eq 'ARRAY' ? sub { return @left ? shift @left : () } : $keys;
    return bless { client => $client, next => $next, chunk => $chunk, failed => $failed, pairs => [] }, $class;
}

# The next pair; nothing at the end.
sub pair {
    my ($self) = @_;
    while ( !@{ $self->{pairs} } ) {
        my @asked = $self->_asked or return;
        $self->_take( \@asked, $self->{client}->get_multi( $self->_arguments(@asked) ) );
    }
    return @{ shift @{ $self->{pairs} } };
}

# The same for a client that calls back: with a reference to the pair, or undef at the end.
sub pair_later {
    my ( $self, $told ) = @_;
    if ( my $pair = shift @{ $self->{pairs} } ) {
        return $self->_soon( sub { $told->( $pair, undef ) } );
    }
    my @asked = $self->_asked or return $self->_soon( sub { $told->( undef, undef ) } );
    my ( $client, $following ) = ( $self->{client}, Pinyon::Loop::Operations->new );
    my $reading = Pinyon::Loop::Many->begin(
        $client,
        'get_multi',
        [ $self->_arguments(@asked) ],
        sub {
            my ( $found, $error ) = @_;
            return $told->( undef, $error ) if defined $error;
            $self->_take( \@asked, $found );
            $following->add( $self->pair_later($told) );
        }
    );
    $following->add($reading);
    return $following;
}

sub _soon {
    my ( $self, $code ) = @_;
    my $is_wanted = 1;
    $self->{client}{loop}->later( sub { $code->() if $is_wanted } );
    return Pinyon::Iterating::Soon->new( \$is_wanted );
}

# The next chunk of keys.
sub _asked {
    my ($self) = @_;
    my @asked;
    while ( $self->{next} && @asked < $self->{chunk} ) {
        my ($key) = $self->{next}->();
        if ( !defined $key ) {
            delete $self->{next};
            last;
        }
        push @asked, $key;
    }
    return @asked;
}

sub _arguments {
    my ( $self, @asked ) = @_;
    return ( \@asked, $self->{failed} ? ( failed => $self->{failed} ) : () );
}

sub _take {
    my ( $self, $asked, $found ) = @_;
    my %is_taken;
    push @{ $self->{pairs} }, map { [ $_, $found->{$_} ] } grep { exists $found->{$_} && !$is_taken{$_}++ } @{$asked};
    return;
}

package Pinyon::Iterating::Soon;

# What is told in the loop's next turn, unless it is cancelled.
sub new {
    my ( $class, $is_wanted ) = @_;
    return bless { is_wanted => $is_wanted }, $class;
}

sub cancel {
    my ($self) = @_;
    ${ $self->{is_wanted} } = 0;
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Iterating - any number of values, one after the other: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Cache>.

=cut
