use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(time);

use Pinyon;
use Servers qw(have_server locks redis GENEROUS);

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

my $locks = locks();
my $url   = 'unix://' . redis()->{address};

# What the block died of.
sub died_of(&) {    ## no critic (ProhibitSubroutinePrototypes)
    my ($block) = @_;
    return eval { $block->(); 1 } ? undef : $@;
}

subtest 'a burst is allowed, and then it says when' => sub {
    my $rate = $locks->rate( 'api:7', limit => 3, per => 3000, burst => 2 );
    is_deeply [ map { $rate->$_ } qw(name limit per burst) ], [ 'api:7', 3, 3000, 2 ];
    my $first = $rate->allow;
    ok $first;
    is_deeply [ map { $first->$_ } qw(allowed limit remaining retry_after) ], [ 1, 3, 1, undef ];
    ok $rate->allow(1);
    my $third = $rate->allow;
    ok !$third;
    ok $third->retry_after > 900 && $third->retry_after <= 1000;
    ok $third->{reset} > 1900 && $third->{reset} <= 2000;
    like "$third", qr/not allowed, retry after \d/;
    ok $rate->allow(2)->retry_after > 1900;
};

subtest 'handlers share permits, and the burst is the limit without one' => sub {
    my $rate  = $locks->rate( 'shared', limit => 2, per => 1000 );
    my $plain = locks( handler => 'pure' )->rate( 'shared', limit => 2, per => 1000 );
    is_deeply [ map { $_->allow ? 1 : 0 } $rate, $plain, $plain, $rate ], [ 1, 1, 0, 0 ];
};

subtest 'a wait' => sub {
    my $rate  = $locks->rate( 'waits', limit => 10, per => 1, burst => 1 );
    my $begun = time;
    ok $rate->wait( 1, timeout => 60 ) for 1 .. 3;
    cmp_ok time - $begun, '>', 2 * 0.1 - 0.01;
    my $slow = $locks->rate( 'slow', limit => 1, per => 1000 );
    ok $slow->wait;
    for my $timeout ( 0, 5 ) {
        my $error = died_of { $slow->wait( timeout => $timeout ) };
        isa_ok $error, 'Pinyon::Error::LockTimeout';
        like $error, qr/the rate "slow" does not allow it/;
    }
};

subtest 'what makes no sense is refused by name' => sub {
    my $rate = $locks->rate( 'senseless', limit => 10, per => 1, burst => 2 );
    for (
        [ qr/never gives more than 2 at once/ => sub { $rate->allow(3) } ],
        [ qr/n must be at least 1, not 0/     => sub { $rate->wait(0) } ],
        [ qr/a rate needs per/         => sub { $locks->rate( 'x', limit => 1 ) } ],
        [ qr/no option "bursts"/       => sub { $locks->rate( 'x', limit => 1, per => 1, bursts => 1 ) } ],
        [ qr/burst must be at least 1/ => sub { $locks->rate( 'x', limit => 1, per => 1, burst  => 0 ) } ],
        [ qr/limit must be from 1/     => sub { $locks->rate( 'x', limit => 0, per => 1 )->allow } ],
        )
    {
        my ( $said, $asks ) = @{$_};
        my $error = died_of { $asks->() };
        isa_ok $error, 'Pinyon::Error::Usage';
        like $error, $said;
    }
};

SKIP: {
    skip 'AnyEvent, EV or Coro does not load', 1 if grep { !eval "require $_" } qw(EV AnyEvent Coro Coro::AnyEvent);
    require Pinyon::AnyEvent;
    require Pinyon::Coro;

    subtest 'in event loops' => sub {
        my @settings = ( namespace => "r$$", timeout => GENEROUS, connect_timeout => GENEROUS );
        my $awaited  = Pinyon::AnyEvent::Locks->new( $url, @settings )->rate( 'a', limit => 1, per => 1000 );
        ok $awaited->allow->recv;
        ok !$awaited->allow(1)->recv;
        my $told = AnyEvent->condvar;
        $awaited->allow( 1, cb => sub { $told->send(@_) } );
        my ( $answer, $error ) = $told->recv;
        ok !$answer && !defined $error;
        ok !eval { $awaited->wait( timeout => 1 )->recv; 1 };
        isa_ok $@, 'Pinyon::Error::LockTimeout';

        my $rate  = Pinyon::Coro::Locks->new( $url, @settings )->rate( 'b', limit => 20, per => 1, burst => 1 );
        my @order = ();
        my @all   = map {
            my $number = $_;
            Coro::async( sub { push @order, $number if $number ? $rate->wait( timeout => 60 ) : $rate->limit } )
        } 1, 2, 3, 0;
        $_->join for @all;
        is_deeply \@order, [ 0, 1, 2, 3 ], 'others run meanwhile, and waiters are served in order';
    };
}

done_testing;
