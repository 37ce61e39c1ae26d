package PinyonBench::Client::Libmemcached;

# libmemcached, by its Perl interface Memcached::libmemcached, whose calls are libmemcached's.

use v5.36;
use Memcached::libmemcached ();
use PinyonBench::Calls;
use PinyonBench::Protocol qw(address_of);
use Storable              qw(nfreeze thaw);

my %CALLS = map { $_ => Memcached::libmemcached->can("memcached_$_") } qw(get set add replace delete);
my @QUIET = qw(NO_BLOCK BUFFER_REQUESTS NOREPLY);

sub new ( $class, $model ) {
    return bless {model => $model}, $class;
}

sub version ($self) {
    my $library = Memcached::libmemcached::memcached_lib_version();
    return join ', ', Memcached::libmemcached->VERSION, "libmemcached $library", $self->{model}->version;
}

sub configuration ($) {
    return 'tcp_nodelay; objects by Storable; quiet: no_block, buffer_requests, noreply';
}

sub connect ( $, $servers, $kind, $quiet ) {
    my $client = Memcached::libmemcached->new;
    _behave( $client, $_ ) for 'TCP_NODELAY', $quiet ? @QUIET : ();
    for my $server (@$servers) {
        $client->memcached_server_add( address_of($server) ) or die $client->errstr;
    }
    $client->set_callback_coderefs( \&_frozen, \&_thawed ) if $kind eq 'object';
    return PinyonBench::Calls->new(
        client => $client,
        %CALLS,
        get_many       => Memcached::libmemcached->can('get_multi'),
        incr           => sub (@arguments) { return _count( 'increment', @arguments ) },
        decr           => sub (@arguments) { return _count( 'decrement', @arguments ) },
        incr_or_create => sub ( $, $key, $delta, $initial ) {
            return _count( 'increment', $client, $key, $delta ) // ( $client->memcached_add( $key, $initial ) && $initial );
        },
        quietly => sub ( $work, @keys ) {
            $work->( PinyonBench::Calls->new( client => $client, %CALLS ) );

            # A reply proves that everything sent before is done.
            $client->memcached_get($_) for @keys;
        },
        close => sub { $client->memcached_quit },
    );
}

sub _behave ( $client, $name ) {
    no strict 'refs';    ## no critic (ProhibitNoStrict) - the constants are functions of the library
    my $behaviour = &{"Memcached::libmemcached::MEMCACHED_BEHAVIOR_$name"}();
    return $client->memcached_behavior_set( $behaviour, 1 );
}

sub _count ( $name, $client, $key, $delta ) {
    my $count = $client->can("memcached_$name")->( $client, $key, $delta, my $value );
    return $count ? $value : undef;
}

# Callbacks have the value in `$_`, and its flags as the second argument; both may be changed.
sub _frozen {    ## no critic (RequireArgUnpacking) - they are changed
    if ( ref $_ ) {
        $_ = nfreeze($_);
        $_[1] = 1;
    }
    return;
}

sub _thawed {    ## no critic (RequireArgUnpacking) - they are looked at
    $_ = thaw($_) if $_[1] & 1;
    return;
}

1;
