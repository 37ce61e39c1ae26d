use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes ();

use Pinyon;
use Servers qw(have_server memcached GENEROUS);

# get_or_set_multi: callers whose keys overlap wait for each other, key by key. What else it does, lease_scenarios.t plays.

plan skip_all => 'memcached is not installed' if !have_server('memcached');

# Seconds: longer than any test takes.
use constant LONG => 1000;

my $number = 0;

sub settings {
    return (
        servers         => memcached()->{address},
        namespace       => "multi$$:" . $number++ . q{:},
        timeout         => GENEROUS,
        connect_timeout => GENEROUS
    );
}

sub named {
    return { map { $_ => "value of $_" } @_ };
}

sub never { die "there was something to take for @_\n" }

# How many values the server was asked for and has stored.
sub counted {
    my ($stats)  = @_;
    my ($server) = values %{$stats};
    return @{$server}{qw(cmd_get cmd_set)};
}

subtest 'a key costs one question, and a made value one store' => sub {
    my $cache  = Pinyon::Cache->new( settings() );
    my @keys   = map { "key:$_" } 1 .. 50;
    my @before = counted( $cache->stats );
    is_deeply $cache->get_or_set_multi( \@keys, \&named, ttl => 60 ), named(@keys);
    is_deeply $cache->get_or_set_multi( \@keys, \&never, ttl => 60 ), named(@keys);
    my @after = counted( $cache->stats );
    is_deeply [ $after[0] - $before[0], $after[1] - $before[1] ], [ 100, 50 ];
};

subtest 'a caller that dies by a signal gives back what it won' => sub {
    my @settings = settings();
    my $cache    = Pinyon::Cache->new(@settings);
    {
        local $SIG{ALRM} = sub { die "enough\n" };
        alarm 1;
        ok !eval {
            $cache->get_or_set_multi( [qw(a b)], sub { Time::HiRes::sleep(0.1) while 1 }, lease => LONG );
            1;
        };
        alarm 0;
    }
    is $@, "enough\n";
    is_deeply( Pinyon::Cache->new(@settings)->get_or_set_multi( [qw(a b)], \&named, wait => 0 ), named(qw(a b)) );
};

subtest 'a migrating client makes nothing that the old pool has' => sub {
    my ( $old, $new ) = map { Pinyon::Cache->new( settings() ) } 1 .. 2;
    my $cache = Pinyon::MigratingCache->new( $old, $new );
    my %there = map { ( "there:$_" => $_ ) } 1 .. 40;
    $old->set_multi( map { [ $_ => $there{$_}, 60 ] } keys %there );
    is_deeply $cache->get_or_set_multi( [ sort( keys %there ), 'other' ], \&named, ttl => 60 ), { %there, %{ named('other') } };
    is_deeply $new->get_multi( keys %there ), \%there;
};

subtest 'callbacks' => sub {
    plan skip_all => 'AnyEvent is not installed' if !eval { require AnyEvent; require Pinyon::AnyEvent; 1 };
    my @settings = settings();
    my $cache    = Pinyon::AnyEvent::Cache->new(@settings);
    my ( @asked, @made );
    my $make  = sub { push @asked, [@_]; push @made, AE::cv(); return $made[-1] };
    my $begun = sub {
        my ($count) = @_;
        $cache->get('none')->recv until @made >= $count;
    };
    my $first = $cache->get_or_set_multi( [qw(a b c)], $make, ttl => 60 );
    $begun->(1);
    my $second = $cache->get_or_set_multi( [qw(d c b)], $make, ttl => 60 );
    my $one    = $cache->get_or_set( a => sub { never('a') }, ttl => 60 );
    $begun->(2);
    $made[1]->send( named('d') );
    $cache->get('none')->recv for 1 .. 3;
    ok !$second->ready, 'it waits for the other';
    $made[0]->send( named(qw(a b c)) );
    is_deeply [ $first->recv, $second->recv, $one->recv ], [ named(qw(a b c)), named(qw(d c b)), 'value of a' ];
    is_deeply \@asked, [ [qw(a b c)], ['d'] ];

    @made = ();
    my $stopped = $cache->get_or_set_multi( [qw(e f)], $make, lease => LONG, cb => sub { fail 'it was cancelled' } );
    $begun->(1);
    my $next = $cache->get_or_set_multi( ['e'], \&named, ttl => 60 );
    $stopped->cancel;
    is_deeply $next->recv, named('e'), 'one that waits goes on';
    is_deeply( Pinyon::Cache->new(@settings)->get_or_set_multi( ['f'], \&named, wait => 0 ), named('f') );
};

subtest 'coroutines' => sub {
    plan skip_all => 'Coro is not installed' if !eval { require EV; require Coro; require Pinyon::Coro; 1 };
    require Coro::AnyEvent;
    for my $serializer ( 'portable', 'storable' ) {
        my @settings = ( settings(), serializer => $serializer );
        my $cache    = Pinyon::Coro::Cache->new(@settings);
        my ( $is_held, @asked ) = (1);
        my $make = sub {
            push @asked, [@_];
            Coro::AnyEvent::sleep(0.01) while $is_held;
            return named(@_);
        };
        my @wanted = ( [qw(a b c d)], [qw(d c b e)], [qw(e a f b)] );
        my @callers;
        for my $keys (@wanted) {
            push @callers, Coro::async( sub { $cache->get_or_set_multi( $keys, $make, ttl => 60 ) } );
            Coro::AnyEvent::sleep(0.01) while @asked < @callers;
        }
        $is_held = 0;
        is_deeply [ map { $_->join } @callers ], [ map { named( @{$_} ) } @wanted ], $serializer;
        is_deeply \@asked, [ [qw(a b c d)], ['e'], ['f'] ];

        $is_held = 1;
        my $stopped = Coro::async(
            sub {
                eval { $cache->get_or_set_multi( [qw(g h)], $make, lease => LONG ) };
                return $@;
            }
        );
        Coro::AnyEvent::sleep(0.01) while @asked < 4;
        $stopped->throw("stopped\n");
        is $stopped->join, "stopped\n";
        is_deeply( $cache->get_or_set_multi( [qw(g h)], \&named, wait => 0 ), named(qw(g h)), 'one that is stopped lets go' );
    }
};

done_testing;
