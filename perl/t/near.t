use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache have_server in_child);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

# Values stay fresh for the whole test, however slow the machine is.
my %settings = ( namespace => 'near:', near => { fresh => 10_000 } );
my $other    = cache( namespace => 'near:' );

sub counts_of {
    my ($cache) = @_;
    return { map { $_ => $cache->near_metrics->{$_} } qw(hits fills revalidations evictions) };
}

subtest 'the second read comes from memory, and what the process writes is seen at once' => sub {
    my $cache = cache(%settings);
    $cache->set( hot => { answer => [ 6, 7 ] } );
    is_deeply $cache->get('hot'), { answer => [ 6, 7 ] } for 1 .. 3;
    is_deeply counts_of($cache),  { hits   => 2, fills => 1, revalidations => 0, evictions => 0 };
    cmp_ok $cache->near_metrics->{bytes}, '>', 0;
    $cache->get('hot')->{answer} = 'changed';
    is_deeply $cache->get('hot'), { answer => [ 6, 7 ] }, 'each caller has a value of its own';
    $other->set( hot => 'elsewhere' );
    is_deeply $cache->get('hot'), { answer => [ 6, 7 ] }, 'what another process writes is not';
    $cache->set( hot => 'new' );
    is $cache->get('hot'), 'new', 'set';
    $cache->delete('hot');
    is $cache->get('hot'), undef, 'delete';
};

subtest 'a view may ask the servers, and counts with its client' => sub {
    my $cache = cache(%settings);
    my $view  = $cache->using( near => 0 );
    $cache->set( viewed => 'old' );
    is $cache->get('viewed'), 'old';
    $other->set( viewed => 'new' );
    is $view->get('viewed'),  'new';
    is $cache->get('viewed'), 'old';
    is_deeply counts_of($view), { hits => 1, fills => 1, revalidations => 0, evictions => 0 };
};

subtest 'many keys' => sub {
    my $cache = cache(%settings);
    $cache->set_multi( [ one => 1 ], [ two => 2 ] );
    is_deeply $cache->get_multi(qw(one two none)), { one => 1, two => 2 } for 1 .. 2;
    is $cache->near_metrics->{hits}, 2;
};

subtest 'a child begins with nothing in memory' => sub {
    my $cache = cache(%settings);
    $cache->set( forked => 'old' );
    $cache->get('forked');
    $other->set( forked => 'new' );
    is in_child { join q{ }, $cache->near_metrics->{bytes}, $cache->get('forked') }, '0 new';
    is $cache->get('forked'),                                                        'old';
};

subtest 'settings are booleans of JSON, too' => sub {
    require JSON::PP;
    for my $truth ( JSON::PP::true(), JSON::PP::false() ) {
        my $cache = cache( near => $truth, failover => $truth );
        $cache->set( boolean => 1 );
        $cache->get('boolean') for 1 .. 2;
        is $cache->near_metrics->{hits}, $truth ? 1 : 0;
    }
};

subtest 'without near, nothing is kept' => sub {
    $other->set( cold => 1 );
    $other->get('cold') for 1 .. 2;
    is_deeply $other->near_metrics, { hits => 0, fills => 0, revalidations => 0, evictions => 0, bytes => 0 };
};

done_testing;
