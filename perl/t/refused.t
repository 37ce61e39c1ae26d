use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Pinyon::Compat::Cache_Memcached_Fast;
use Servers qw(cache have_server memcached server);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

# Larger than a server stores by default, and no larger than max_value_size.
my $large       = 'x' x 1_048_560;
my $last_second = 2**31 - 1;
my @memcached   = ( qw(memcached -u), scalar getpwuid($>), qw(-s SOCKET -t 2) );

sub refused {
    my ( $call, $class, $says, $name ) = @_;
    is eval { $call->(); 1 }, undef, $name;
    isa_ok $@, "Pinyon::Error::$class";
    return like $@->message, $says;
}

subtest 'a conditional store that the server refuses keeps the item' => sub {
    my $cache = cache( namespace => 'refused:', encode_keys => 1 );
    for my $key ( 'key', 'a key' ) {
        $cache->set( $key => 'old' );
        my $token  = $cache->gets($key)->[1];
        my %stores = map {
            my $method = $_;
            ( $method => sub { $cache->$method( $key => $large ) } )
        } qw(add replace append prepend);
        $stores{cas}          = sub { $cache->cas( $key => $large, $token ) };
        $stores{'an old cas'} = sub { $cache->cas( $key => $large, $token - 1 ) };
        for my $name ( sort keys %stores ) {
            refused( $stores{$name}, 'ValueTooLarge', qr/1048560 bytes, more than the server stores/, $name );
            is $cache->get($key), 'old', "$name: the item stays";
        }
    }
};

subtest 'get_or_set of a value that the server refuses keeps the old one' => sub {
    my $cache = cache( namespace => 'made:' );
    $cache->set( key => 'old' );
    $cache->delete( 'key', stale => 60 );
    refused(
        sub {
            $cache->get_or_set( key => sub { $large }, ttl => 60 );
        },
        'ValueTooLarge',
        qr/more than the server/,
        'it dies'
    );
    is $cache->lease('key')->value, 'old';
};

subtest 'an interface of another client' => sub {
    my $cache = Pinyon::Compat::Cache_Memcached_Fast->new( { servers => [ memcached()->{address} ], namespace => 'fast:' } );
    $cache->set( key => 'old' );
    ok !$cache->add( key => $large );
    is $cache->get('key'), 'old';
    ok $cache->set( key => 'long', time + 20 * 365 * 86_400 );
    is $cache->get('key'), 'long';
};

subtest 'with misses what is refused is not stored' => sub {
    my $cache = cache( namespace => 'misses:', on_failure => 'miss' );
    ok !$cache->$_( key => $large ), $_ for qw(set add);
    is $cache->cas( key => $large, 1 ), undef, 'cas';
    for ( 1 .. 2 ) {
        is length $cache->get_or_set( key => sub { $large }, ttl => 60, lease => 600 ), length $large, 'get_or_set';
    }
};

subtest 'a server without CAS tokens' => sub {
    my $server = server( @memcached, '-C' );
    my $cache  = cache( servers => [ $server->{address} ] );
    $cache->set( key => 1 );
    refused( sub { $cache->gets('key') }, 'Unsupported', qr/has no CAS tokens, because it was started with -C/, 'gets dies' );
    my $made = 0;
    for ( 1 .. 2 ) {
        is $cache->get_or_set( made => sub { ++$made }, ttl => 60, lease => 600 ), 1, 'get_or_set';
    }
    is $cache->lease('lease')->fulfil( 'value', 60 ), 1, 'fulfil';
    is $cache->get('lease'), 'value';
};

subtest q{a ttl beyond memcached's clock lasts as long as that} => sub {
    my $cache = cache( namespace => 'ttl:' );
    for my $ttl ( 20 * 365 * 86_400, 1e18, 1e300, 9**9**9, ~0 ) {
        $cache->set( key => 'value', $ttl );
        my $left = $cache->get_with_ttl('key')->[1];
        cmp_ok abs( time + $left - $last_second ), '<', 60, "a ttl of $ttl";
    }
    $cache->set( key => 'value', -9**9**9 );
    is scalar $cache->get('key'), undef, 'and a negative one ends at once';
};

done_testing;
