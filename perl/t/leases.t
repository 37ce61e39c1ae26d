use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(sleep ualarm);

use Pinyon;
use Servers qw(cache eventually have_server in_child);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my $cache = cache( namespace => 'leases:' );

subtest 'a missing value is made once' => sub {
    my $made = 0;
    is_deeply $cache->get_or_set( page => sub { $made++; return { title => 'front' } }, ttl => 60 ), { title => 'front' };
    is_deeply $cache->get_or_set( page => sub { $made++; return 'another' },            ttl => 60 ), { title => 'front' };
    is $made, 1;
};

subtest 'other processes wait for it' => sub {
    pipe my $reader, my $writer;
    my $child = fork;
    if ( !$child ) {
        $cache->get_or_set( slow => sub { syswrite $writer, 'x'; sleep 0.5; return 'from the child' }, ttl => 60 );
        POSIX::_exit(0);
    }
    sysread $reader, my $begun, 1;
    is $cache->get_or_set( slow => sub { 'from the parent' }, ttl => 60 ), 'from the child';
    waitpid $child, 0;
};

subtest 'what the sub dies of is what the caller gets' => sub {
    my $object = { an => 'object' };
    ok !eval {
        $cache->get_or_set( never => sub { die $object } );
        1;
    };
    is $@, $object;
    is $cache->get_or_set( never => sub { 'now' }, wait => 0 ), 'now', 'and the next caller makes it at once';
    local $SIG{ALRM} = sub { die "enough\n" };
    ualarm 100_000;
    ok !eval {
        $cache->get_or_set( stopped => sub { sleep 60 } );
        1;
    };
    is $@, "enough\n";
    is $cache->get_or_set( stopped => sub { 'now' }, wait => 0 ), 'now', 'also where a signal ends it';
    ok !eval {
        $cache->get_or_set(
            code => sub {
                return sub { }
            }
        );
        1;
    };
    isa_ok $@, 'Pinyon::Error::UnsupportedType';
};

subtest 'the parts by hand' => sub {
    my $lease = $cache->lease('report');
    ok $lease->is_won;
    ok !$lease->has_value;
    my $other = $cache->lease('report');
    is $other->state, 'filling', 'another caller makes it';
    ok !eval { $other->fulfil(1); 1 };
    like $@, qr/need a lease that was won; this one is filling/;
    is $lease->fulfil( 'made', 60 ), 1;
    is $lease->fulfil( 'made', 60 ), q{}, 'once only';
    my $hit = $cache->lease('report');
    ok $hit->is_hit;
    is $hit->value, 'made';
    is $cache->delete( 'report', stale => 60 ), 1, 'deleted, with a stale value';
    my $won = $cache->lease('report');
    ok $won->is_won;
    is $won->value, 'made', 'which the winner has, too';
    my $stale = $cache->lease('report');
    ok $stale->is_stale;
    is $stale->value, 'made';
};

subtest 'a lease that goes out of scope is given back' => sub {
    { my $lease = $cache->lease('dropped'); ok $lease->is_won; }
    my $lease = $cache->lease('dropped');
    ok $lease->is_won, 'the next caller wins at once';
    in_child { undef $lease; 'left alone' };
    ok $cache->lease('dropped')->is_filling, 'a child leaves it alone';
    is $lease->give_back, 1;
    is $lease->give_back, q{};
};

subtest 'a win is given back when a handler of signals dies before it is an object' => sub {
    {
        no warnings 'redefine';
        local *Pinyon::Lease::new = sub { die "enough\n" };
        ok !eval { $cache->lease('interrupted'); 1 };
        is $@, "enough\n";
    }
    ok $cache->lease('interrupted')->is_won;
};

subtest 'another caller takes too long' => sub {
    my $lease = $cache->lease('held');
    ok !eval {
        $cache->get_or_set( held => sub { 1 }, wait => 0.1 );
        1;
    };
    isa_ok $@, 'Pinyon::Error::LeaseTimeout';
};

subtest 'no maker goes on behind a caller that blocks' => sub {
    for my $options ( [ soft_timeout => 1 ], [ refresh => 'behind' ] ) {
        my $made = 0;
        ok !eval {
            $cache->get_or_set( waits => sub { $made++ }, ttl => 60, stale => 30, @{$options} );
            1;
        };
        isa_ok $@, 'Pinyon::Error::Usage';
        like $@, qr/\A$options->[0].*cannot be used here: this call waits for what it makes/;
        is $made, 0, 'the sub is not called';
        ok !eval {
            $cache->get_or_set_multi( ['waits'], sub { {} }, ttl => 60, stale => 30, @{$options} );
            1;
        };
        like $@, qr/\A$options->[0].*cannot be used here/, 'nor for many';
    }
    ok $cache->lease('waits')->is_won, 'nothing was asked';
    ok !eval {
        $cache->get_or_set( waits => sub { 1 }, ttl => 60, refresh => 'never' );
        1;
    };
    like $@, qr/refresh must be "wait" or "behind", not "never"/;
};

done_testing;
