package PinyonBench::Client::CacheMemcached;

# Cache::Memcached, in pure Perl. Its sockets belong to the process, not to a client.

use v5.36;
use Cache::Memcached ();
use PinyonBench::Calls;

sub new ( $class, $model ) {
    return bless {model => $model}, $class;
}

sub version ($self) {
    return join ', ', Cache::Memcached->VERSION, $self->{model}->version;
}

sub configuration ($) {
    my $parser = eval { require Cache::Memcached::GetParserXS } ? 'GetParser in XS' : 'pure Perl';
    return "defaults; objects by Storable; $parser";
}

sub connect ( $self, $servers, $, $ ) {
    my $client = Cache::Memcached->new( {servers => $servers} );
    return PinyonBench::Calls->of(
        $client,
        {( map { $_ => $_ } qw(get set add replace delete incr decr) ), get_many => 'get_multi'},
        incr_or_create => \&_incr_or_create,
        close          => sub { $client->disconnect_all },
    );
}

sub _incr_or_create ( $client, $key, $delta, $initial ) {
    return $client->incr( $key, $delta ) || $client->add( $key, $initial ) && $initial;
}

1;
