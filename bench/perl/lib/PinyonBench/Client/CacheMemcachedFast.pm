package PinyonBench::Client::CacheMemcachedFast;

# Cache::Memcached::Fast. In coroutines it blocks all of them; it takes part because people use it so.

use v5.36;
use Cache::Memcached::Fast ();
use PinyonBench::Calls;

sub new ( $class, $model ) {
    return bless {model => $model}, $class;
}

# Returns the class of the client.
sub library ($) {
    return 'Cache::Memcached::Fast';
}

sub version ($self) {
    return join ', ', $self->library->VERSION, $self->{model}->version;
}

sub configuration ($) {
    return 'defaults; objects by Storable; quiet: nowait, in void context';
}

# Returns the calls of a new client.
sub connect ( $self, $servers, $, $quiet ) {
    my $client = $self->library->new( {servers => $servers, $quiet ? ( nowait => 1 ) : ()} );
    my %names =
        ( ( map { $_ => $_ } qw(get set add replace delete incr decr) ), get_many => 'get_multi', set_many => 'set_multi' );
    return PinyonBench::Calls->of(
        $client, \%names,
        incr_or_create => \&_incr_or_create,
        quietly        => sub ( $work, @ ) { $work->( PinyonBench::Calls->of( $client, \%names ) ); $client->nowait_push },
        close          => sub { $client->disconnect_all },
    );
}

sub _incr_or_create ( $client, $key, $delta, $initial ) {
    return $client->incr( $key, $delta ) || $client->add( $key, $initial ) && $initial;
}

1;
