package CHI::Driver::Pinyon;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp ();
use Moo;
use Pinyon ();

extends 'CHI::Driver';

has clearable => ( is => 'ro' );
has pinyon    => ( is => 'ro', init_arg => undef );

# What stands before all keys: a key may be empty.
use constant ENTRY => '=';

# memcached's keys have at most 250 bytes. Base64, which some keys need, makes four of three.
use constant { LONGEST => 250, GENERATION_LENGTH => 11, MARK => 8 };

__PACKAGE__->declare_unsupported_methods(qw(dump_as_hash get_keys get_namespaces is_empty purge));

sub BUILD {
    my ( $self, $parameters ) = @_;
    my %settings = %{ $self->non_common_constructor_params($parameters) };
    delete @settings{qw(clearable pinyon)};
    my $namespace = $self->namespace;
    utf8::encode($namespace) if utf8::is_utf8($namespace);
    my $room = LONGEST - MARK - length $namespace;
    $room -= GENERATION_LENGTH if $self->clearable;
    $self->{max_key_length} = int( $room * 3 / 4 ) if !exists $parameters->{max_key_length};
    $self->{pinyon}         = Pinyon::Cache->new(
        encode_keys => 1,
        ( $self->clearable ? ( clearable => 1, generation_ttl => 0 ) : () ),
        %settings,
        namespace  => "$namespace:",
        serializer => 'raw',
    );
    return;
}

# The same bytes for the same text, whatever mark Perl has given to it.
sub _entry {
    my ( $self, $key ) = @_;
    utf8::encode($key) if utf8::is_utf8($key) && !utf8::downgrade( $key, 1 );
    return ENTRY . $key;
}

sub fetch {
    my ( $self, $key ) = @_;
    return scalar $self->pinyon->get( $self->_entry($key) );
}

sub fetch_multi_hashref {
    my ( $self, $keys ) = @_;
    my @entries = map { $self->_entry($_) } @{$keys};
    my $found   = $self->pinyon->get_multi(@entries);
    return { map { $keys->[$_] => $found->{ $entries[$_] } } 0 .. $#entries };
}

sub store {
    my ( $self, $key, $data, $expires_in ) = @_;
    return $self->pinyon->set( $self->_entry($key), $data, defined $expires_in ? $expires_in : 0 );
}

sub remove {
    my ( $self, $key ) = @_;
    return $self->pinyon->delete( $self->_entry($key) );
}

sub clear {
    my ( $self, @arguments ) = @_;
    Carp::croak('clear takes no arguments') if @arguments;
    if ( !$self->clearable ) {
        Carp::croak( "method 'clear' not supported by '" . ref($self) . q{' without clearable => 1} );
    }
    $self->pinyon->clear_namespace;
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

Enables C<clear>, which otherwise dies. C<clear> deletes the entries of this namespace only, for all processes, as C<clear_namespace>
of L<Pinyon::Cache> does. All processes that share the namespace must agree. Commands ask for the state of the namespace in the same
send; with C<< generation_ttl => 1 >>, at most once a second, and other processes may then see a C<clear> one second later.

Earlier versions kept an item of their own for this, which each read fetched with its entries, and each write before them. They do not
find the entries of this version.

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
