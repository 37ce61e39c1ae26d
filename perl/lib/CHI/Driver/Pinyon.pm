package CHI::Driver::Pinyon;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp ();
use Moo;
use Pinyon      ();
use Time::HiRes ();

extends 'CHI::Driver';

has clearable => ( is => 'ro' );
has pinyon    => ( is => 'ro', init_arg => undef );
has _edition  => ( is => 'rw', init_arg => undef );

# Where the present edition of a namespace that can be cleared is, and what stands before all other keys: a key may be empty.
use constant { EDITION => 'edition', ENTRY => '=' };

# memcached's keys have at most 250 bytes. Base64, which some keys need, makes four of three.
use constant { LONGEST => 250, EDITION_LENGTH => 24, MARK => 8 };

__PACKAGE__->declare_unsupported_methods(qw(dump_as_hash get_keys get_namespaces is_empty purge));

sub BUILD {
    my ( $self, $parameters ) = @_;
    my %settings = %{ $self->non_common_constructor_params($parameters) };
    delete @settings{qw(clearable pinyon _edition)};
    my $namespace = $self->namespace;
    utf8::encode($namespace) if utf8::is_utf8($namespace);
    my $room = LONGEST - MARK - length $namespace;
    $room -= EDITION_LENGTH if $self->clearable;
    $self->{max_key_length} = int( $room * 3 / 4 ) if !exists $parameters->{max_key_length};
    $self->{pinyon}         = Pinyon::Cache->new(
        encode_keys => 1,
        %settings,
        namespace  => "$namespace:",
        serializer => 'raw',
    );
    return;
}

# The same bytes for the same text, whatever mark Perl has given to it.
sub _entry {
    my ( $self, $key, $edition ) = @_;
    utf8::encode($key) if utf8::is_utf8($key) && !utf8::downgrade( $key, 1 );
    return ENTRY . ( $edition // q{} ) . $key;
}

sub fetch {
    my ( $self, $key ) = @_;
    return scalar $self->pinyon->get( $self->_entry($key) ) if !$self->clearable;
    return $self->_fetch_of_edition( [$key] )->{$key};
}

sub fetch_multi_hashref {
    my ( $self, $keys ) = @_;
    return $self->_fetch_of_edition($keys) if $self->clearable;
    my @entries = map { $self->_entry($_) } @{$keys};
    my $found   = $self->pinyon->get_multi(@entries);
    return { map { $keys->[$_] => $found->{ $entries[$_] } } 0 .. $#entries };
}

# Asks for the edition along with the values, of the edition that was current the last time.
sub _fetch_of_edition {
    my ( $self, $keys ) = @_;
    my $edition = $self->_edition // $self->_current_edition;
    my ( $found, @entries );
    while (1) {
        @entries = map { $self->_entry( $_, $edition ) } @{$keys};
        $found   = $self->pinyon->get_multi( EDITION, @entries );
        my $current = $found->{ EDITION() };
        last if defined $current && $current eq $edition;
        $edition = $current // $self->_current_edition;
        $self->_edition($edition);
    }
    return { map { $keys->[$_] => $found->{ $entries[$_] } } 0 .. $#entries };
}

sub _current_edition {
    my ($self) = @_;
    my $edition;
    until ( defined $edition ) {
        $edition = $self->pinyon->get(EDITION);
        last if defined $edition;
        my $new = _new_edition();
        $edition = $new if $self->pinyon->add( EDITION, $new );
    }
    $self->_edition($edition);
    return $edition;
}

# No two are the same: after a loss of the last one, too.
sub _new_edition {
    my ( $seconds, $microseconds ) = Time::HiRes::gettimeofday();
    return sprintf '%010x%05x%08x:', $seconds, $microseconds, int rand 2**32;
}

sub store {
    my ( $self, $key, $data, $expires_in ) = @_;
    my $edition = $self->clearable ? $self->_current_edition : undef;
    return $self->pinyon->set( $self->_entry( $key, $edition ), $data, defined $expires_in ? $expires_in : 0 );
}

sub remove {
    my ( $self, $key ) = @_;
    my $edition = $self->clearable ? $self->_current_edition : undef;
    return $self->pinyon->delete( $self->_entry( $key, $edition ) );
}

sub clear {
    my ( $self, @arguments ) = @_;
    Carp::croak('clear takes no arguments') if @arguments;
    if ( !$self->clearable ) {
        Carp::croak( "method 'clear' not supported by '" . ref($self) . q{' without clearable => 1} );
    }
    my $edition = _new_edition();
    $self->pinyon->set( EDITION, $edition );
    $self->_edition($edition);
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

CHI::Driver::Pinyon - CHI on memcached, by Pinyon

=head1 SYNOPSIS

    use CHI;

    my $cache = CHI->new(driver => 'Pinyon', servers => ['127.0.0.1:11211'], namespace => 'products');
    $cache->set(product => { name => 'Pine nuts' }, '10 minutes');
    say $cache->get('product')->{name};    # Pine nuts

=head1 DESCRIPTION

This driver supports all of CHI's methods except C<get_keys>, C<get_namespaces>, C<dump_as_hash>, C<is_empty> and C<purge>, because
memcached cannot list keys. Keys may have any characters; CHI digests long keys. If a server fails, CHI handles the error as
C<on_get_error> and C<on_set_error> say.

=head1 CONSTRUCTOR OPTIONS

In addition to CHI's options, the driver takes all settings of L<Pinyon::Cache>, such as C<servers>, C<timeout>, C<ring> and C<tls>.
C<namespace> and C<serializer> are CHI's. In addition:

=over

=item clearable

Enables C<clear>, which otherwise dies. C<clear> deletes the entries of this namespace only, for all processes. For this, the driver
keeps one item with the edition of the namespace. A read fetches this item with the entries, a write fetches it first.

=back

With C<expires_on_backend>, memcached removes entries that have expired for CHI.

=head1 METHODS

=head2 pinyon

The L<Pinyon::Cache>.

=head2 fetch, fetch_multi_hashref, store, remove, clear, BUILD

For CHI.

=head1 SEE ALSO

L<CHI>, L<Pinyon::Cache>

=cut
