use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(ualarm);

use Pinyon;
use Servers qw(cache have_server locks memcached redis GENEROUS);

# Interrupts while locks are acquired: none is left behind. Thrown coroutines leave no lease either. PINYON_STORM says how many; `make soak` wants 100,000.

for my $needed (qw(memcached redis-server)) {
    plan skip_all => "$needed is not installed" if !have_server($needed);
}

my $stops = $ENV{PINYON_STORM} || 300;
my %long  = ( ttl => 3600 );
my $mine  = locks(%long);
my $cache = cache();

sub left_leases {
    my ($prefix) = @_;
    return grep { !$cache->lease( "$prefix$_", lease => 3600 )->is_won } 0 .. 7;
}

sub nothing_is_left {
    my ($prefix) = @_;
    is $mine->is_locked( [ map { "$prefix$_" } 0 .. 7 ] ), q{}, 'no lock is left';
    is_deeply [ left_leases($prefix) ], [], 'no lease is left';
    return;
}

subtest 'handlers that die' => sub {
    my ( $died, $other ) = ( 0, q{} );
    local $SIG{ALRM} = sub { die "stop\n" };
    while ( $died < $stops ) {
        my $name = 'alarm' . int rand 8;
        next if eval {
            ualarm 1 + int rand 400;
            for ( 1 .. 5 ) {
                my $lock = $mine->lock($name);
                my $try  = $mine->try_lock("$name-other");
                $mine->synchronized( "$name-inner" => sub { $cache->get($name) } );
            }
            ualarm 0;
            1;
        };
        $@ eq "stop\n" ? $died++ : ( $other = $@ );
        eval { ualarm 0; 1 } or $died++;
    }
    is $other, q{}, 'they die of nothing else';
    nothing_is_left('alarm');
};

SKIP: {
    skip 'Coro is not installed', 1 if !eval { require EV; require Coro; require Coro::AnyEvent; require Pinyon::Coro; 1 };
    subtest 'coroutines that are thrown at' => sub {
        my %patient = ( timeout => GENEROUS, connect_timeout => GENEROUS );
        my $locks   = Pinyon::Coro::Locks->new( 'unix://' . redis()->{address}, namespace => "t$$", %patient, %long );
        my $leases  = Pinyon::Coro::Cache->new( servers => memcached()->{address}, %patient );
        my ( $thrown, $other ) = ( 0, q{} );
        while ( $thrown < $stops ) {
            my @all = map {
                my $name = "throw$_";
                Coro::async(
                    sub {
                        eval {
                            while (1) {
                                my $lock  = $locks->lock($name);
                                my $lease = $leases->lease( $name, lease => 3600 );
                            }
                            1;
                        } or $@ eq "stop\n" ? $thrown++ : ( $other = $@ );
                    }
                );
            } 0 .. 7;
            Coro::AnyEvent::sleep( rand 0.002 );
            $_->throw("stop\n") for @all;
            $_->join for @all;
        }
        is $other, q{}, 'they end of nothing else';
        my $give_up = time + GENEROUS;
        while ( time < $give_up && ( left_leases('throw') || grep { $locks->is_locked("throw$_") } 0 .. 7 ) ) {
            Coro::AnyEvent::sleep(0.01);
        }
        nothing_is_left('throw');
    };
}

done_testing;
