package Pinyon::Compat::Cache_Memcached_Fast;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp ();

use parent qw(Pinyon::Compat::Client);

our @CARP_NOT = @Pinyon::Compat::Common::CARP_NOT;

# memd_class is what CHI's driver passes on.
my %IS_KNOWN = map { $_ => 1 } qw(
    check_args close_on_error compress_algo compress_methods compress_ratio compress_threshold connect_timeout
    failure_timeout hash_namespace io_timeout ketama_points max_failures max_size memd_class namespace nowait
    select_timeout serialize_methods servers utf8
);

sub new {
    my ( $class, $settings ) = @_;
    $settings ||= {};
    my %given = %{$settings};
    _check( \%given );
    my $self = bless {}, $class;
    $self->{stored} = Pinyon::Compat::Stored->new(
        serialize => $given{serialize_methods},
        compress  => $given{compress_methods},
        threshold => $given{compress_threshold} // -1,
        ratio     => $given{compress_ratio}     // 0.8,
        max_size  => $given{max_size}           // 1024 * 1024,
        has_text  => $given{utf8},
    );
    my @servers = map { _server($_) } ref $given{servers} ? @{ $given{servers} } : ();
    $self->{namespace} = $given{namespace} // q{};
    utf8::encode( $self->{namespace} ) if utf8::is_utf8( $self->{namespace} );
    $self->{hashes_namespace} = $given{hash_namespace}                          ? 1 : 0;
    $self->{nowait}           = $given{nowait} || ( grep { $_->[2] } @servers ) ? 1 : 0;
    $self->{is_plain}         = !$given{serialize_methods} && !$given{compress_methods} && $self->{stored}->max_size > 0;
    my $points = int( $given{ketama_points} // 0 );
    return $self->_begin(
        \@servers,
        ring            => $points > 0 ? "cache-memcached-fast-ketama:$points" : 'cache-memcached-fast',
        timeout         => _seconds( $given{io_timeout} // $given{select_timeout} // 1 ),
        connect_timeout => _seconds( $given{connect_timeout} // 0.25 ),
    );
}

sub _check {
    my ($given) = @_;
    return                                                                if lc( $given->{check_args} // q{} ) eq 'skip';
    Carp::carp('compress_algo was removed in 0.08, use compress_methods') if exists $given->{compress_algo};
    my @unknown = grep { !$IS_KNOWN{$_} } sort keys %{$given};
    Carp::carp( 'Unknown arguments: ' . join ', ', @unknown ) if @unknown;
    return;
}

sub _seconds {
    my ($seconds) = @_;
    return $seconds > 0 ? $seconds : Pinyon::Compat::Client::DAY();
}

# Address, weight, and whether its replies are of no interest.
sub _server {
    my ($server) = @_;
    my ( $address, $weight, $noreply );
    if ( !ref $server ) {
        $address = "$server";
    }
    elsif ( ref $server eq 'ARRAY' ) {
        ( $address, $weight ) = @{$server};
        Carp::croak('server should be [$addr, $weight]') if !defined $address;
    }
    elsif ( ref $server eq 'HASH' ) {
        ( $address, $weight, $noreply ) = @{$server}{qw(address weight noreply)};
        Carp::croak('server should have { address => $addr }') if !defined $address;
    }
    else {
        Carp::croak('Not a hash or array reference');
    }
    $weight //= 1;
    Carp::croak('Server weight should be positive') if $weight <= 0;
    return [ "$address", $weight, $noreply ];
}

# Delays are spread: the first server waits longest, the last one not at all.
sub flush_all {
    my ( $self, $delay ) = @_;
    my @servers = @{ $self->{servers} };
    return $self->_ask( flush_all => () )         if !$delay || $delay <= 0;
    return $self->_ask( flush_all => int $delay ) if @servers == 1;
    $self->_settle;
    my %flushed;
    for my $index ( 0 .. $#servers ) {
        my $address = $servers[$index][0];
        my $one     = Pinyon::Cache->new( servers => [$address], %{ $self->{settings} }, ring => 'cache-memcached-fast' );
        local $@ = undef;
        if ( eval { $one->flush_all( int( $delay * ( $#servers - $index ) / $#servers + 0.5 ) ); 1 } ) {
            $flushed{$address} = 1;
            next;
        }
        Pinyon::Compat::Common::_failed($@);
    }
    return \%flushed;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Compat::Cache_Memcached_Fast - Cache::Memcached::Fast's interface on Pinyon's client

=head1 SYNOPSIS

    use Pinyon::Compat::Cache_Memcached_Fast;

    my $memd = Pinyon::Compat::Cache_Memcached_Fast->new({ servers => ['127.0.0.1:11211'], namespace => 'app:' });
    $memd->set(key => { name => 'Ada' }, 60);
    say $memd->get('key')->{name};    # Ada

=head1 DESCRIPTION

This class has the constructor and the methods of Cache::Memcached::Fast 0.28, with the same results: 1, an empty string for a
negative reply, and C<undef> (the empty list in list context) for an error. Keys go to the same servers, and values have the same
bytes and flags. So programs with either client can share a cache.

If your code names the original, C<use Pinyon::Compat::Replace 'Cache::Memcached::Fast'> gives it this class.

=head1 CONSTRUCTOR

=head2 new(\%settings)

=over

=item servers

A reference to an array of C<host:port>, a path, C<[address, weight]> or C<< { address => , weight => , noreply => } >>. Weights
may have up to six decimals.

=item namespace, hash_namespace

Bytes that precede each key, and whether they also help to select the server.

=item ketama_points

The number of points on the ring for a server of weight 1; 0 for the ring without points.

=item connect_timeout, io_timeout, select_timeout

In seconds. 0 means no timeout; here it is a day.

=item compress_threshold, compress_ratio, compress_methods

From how many bytes on the client compresses values, the ratio that compression must reach, and the two subs.

=item serialize_methods

The two subs for references; Storable's by default.

=item utf8

Whether strings with Perl's UTF-8 mark keep it.

=item nowait

Whether commands in void context return without waiting for the reply. C<noreply> of a server does the same.

=item max_size

The most bytes of a value.

=item check_args

C<skip> lets unknown names pass without a warning.

=item close_on_error, max_failures, failure_timeout

These are accepted and have no effect: Pinyon checks every reply, and marks servers down by itself.

=back

=head1 METHODS FOR ONE KEY

=head2 set($key, $value, $ttl), add, replace, append($key, $value), prepend, cas($key, $cas, $value, $ttl), delete($key), remove, touch($key, $ttl)

1, an empty string, or C<undef>.

=head2 incr($key, $number), decr($key, $number)

The number, C<0E0> for 0, an empty string if there is none, or C<undef>.

=head2 get($key), gat($ttl, $key)

The value.

=head2 gets($key), gats($ttl, $key)

C<[$cas, $value]>.

=head1 METHODS FOR MANY KEYS

=head2 get_multi(@keys), gets_multi(@keys), gat_multi($ttl, @keys), gats_multi($ttl, @keys)

A reference to a hash of what was found.

=head2 set_multi([$key, $value, $ttl] ...), add_multi, replace_multi, append_multi, prepend_multi, cas_multi, delete_multi, touch_multi, incr_multi, decr_multi

Return the results in order in list context, otherwise a reference to a hash of results by key. If an argument is malformed, they
die and send nothing.

=head1 OTHER METHODS

=head2 flush_all($delay)

Returns a reference to a hash by server. The servers delete their items one after the other within the delay.

=head2 server_versions

Returns a reference to a hash of the versions of the reachable servers.

=head2 namespace($new)

Returns the previous namespace, and sets a new one if you pass it.

=head2 enable_compress($whether), nowait_push, disconnect_all

Return nothing.

=head1 WHAT DIFFERS

Pinyon does not send a key that is empty, has a space or a control character, or is longer than 250 bytes with its namespace: the
result is C<undef>. If a namespace has such characters, C<new> and C<namespace> die. You need not do anything after a C<fork> or in
a new thread.

=head1 SEE ALSO

L<Pinyon::Cache>, L<Pinyon::Compat::Cache_Memcached>

=cut
