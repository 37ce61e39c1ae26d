package PinyonBench::Client::AnyEventMemcached;

# AnyEvent::Memcached, in pure Perl.

use v5.36;
use AnyEvent::Memcached ();
use PinyonBench::Calls;

sub new ( $class, $model ) {
    return bless {model => $model}, $class;
}

sub version ($self) {
    return join ', ', AnyEvent::Memcached->VERSION, $self->{model}->version;
}

sub configuration ($) {
    return 'defaults';
}

sub connect ( $, $servers, $, $ ) {
    my $client = AnyEvent::Memcached->new( servers => $servers );

    # Over a slow link a set that comes before the connection is answered with nothing.
    my $connected = AnyEvent->condvar;
    $client->incr( absent => 1, cb => sub { $connected->send } );
    $connected->recv;
    return PinyonBench::Calls->of( $client, {get => 'get', set => 'set'}, close => sub { $client->destroy } );
}

1;
