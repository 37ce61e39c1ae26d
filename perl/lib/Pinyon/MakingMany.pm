package Pinyon::MakingMany;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(blessed reftype);

use Pinyon::Making ();

our @ISA = ('Pinyon::Making');    ## no critic (ProhibitExplicitISA)

# One caller of get_or_set_multi. `failed`: a hash for the errors of keys.
sub new {
    my ( $class, $client, $keys, $make, %options ) = @_;
    if ( ref $keys ne 'ARRAY' || ( reftype( $make // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw(
            'get_or_set_multi takes a reference to an array of keys, and a reference to a sub that makes their values');
    }
    my $failed = delete $options{failed};
    if ( defined $failed && ref $failed ne 'HASH' ) {
        Pinyon::Error::Usage->throw('failed takes a reference to a hash');
    }
    my $self = bless { client => $client, keys => [ @{$keys} ], failed => $failed, make_many => $make }, $class;
    $self->_begin( $client, $self->{keys}, $self->_terms( get_or_set_multi => %options ) );
    return $self;
}

# Goes on to the values, and returns them by key, or to what must be made, and returns nothing.
sub _run {
    my ( $self, $client ) = @_;
    while (1) {
        return if $self->_goes_to_make($client);
        my ( $values, $error ) = $self->_outcome;
        die $error     if defined $error;
        return $values if $values;
    }
    return;
}

# Calls the sub with the keys to make.
sub _called {
    my ($self) = @_;
    return $self->{make_many}->( map { $self->{keys}[$_] } $self->_wanted );
}

sub values_by_key {
    my ($self) = @_;
    return $self->value( sub { $self->_called } );
}

# Takes what the sub returned: values by key.
sub _made {
    my ( $self, $client, $made ) = @_;
    if ( blessed $made || ref $made ne 'HASH' ) {
        Pinyon::Error::UnsupportedType->throw('the sub of get_or_set_multi returns a reference to a hash of values by key');
    }
    for my $number ( $self->_wanted ) {
        my $key = $self->{keys}[$number];
        $self->_take( $client, $number, $self->_said_of( $made->{$key} ) ) if exists $made->{$key};
    }
    return;
}

# The values by key, and the error that no one has taken; nothing if some cannot be read, and are to be made anew.
sub _outcome {
    my ($self) = @_;
    my ( $failed, %values, $first, $is_made_anew ) = ( $self->{failed} );
    for my $number ( 0 .. $#{ $self->{keys} } ) {
        my $key = $self->{keys}[$number];
        my ( @found, $error );
        {
            local $@ = undef;
            eval { @found = $self->_answer( $self->{client}, $number ); 1 } or $error = $@;
        }
        if ( !defined $error ) {
            $values{$key} = $found[0] if @found;
            next;
        }
        my $reason = Pinyon::Error::_unreadable($error);
        if ( defined $reason && $self->_unreadable( $number, $reason ) ) {
            $is_made_anew = 1;
            next;
        }
        if ($failed) { $failed->{$key} = $error }
        else         { $first //= $error }
    }
    return                       if $is_made_anew;
    $first->{partial} = \%values if blessed $first && $first->isa('Pinyon::Error');
    return ( \%values, $first );
}

# What cannot be read is known by its key.
sub _is_made_anew { return 0 }

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::MakingMany - one caller of get_or_set_multi: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Cache>.

=cut
