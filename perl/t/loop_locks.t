use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(eventually have_server redis GENEROUS);

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');
plan skip_all => "$_ does not load" for grep { !eval "require $_" } qw(EV Coro Coro::AnyEvent);

require Pinyon::AnyEvent;
require Pinyon::Coro;

my @generous = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my $url      = 'unix://' . redis()->{address};

subtest 'locks' => sub {
    my $locks = Pinyon::Coro::Locks->new( $url, namespace => "l$$", ttl => 6, @generous[ 2, 3 ] );
    my ( $inside, $most, $count ) = (0) x 3;
    my @all = map {
        Coro::async(
            sub {
                for ( 1 .. 10 ) {
                    my $lock = $locks->lock( 'shared', timeout => GENEROUS );
                    $inside++;
                    $most = $inside if $inside > $most;
                    Coro::cede();
                    $inside--;
                    $count++;
                    $lock->release;
                }
            }
        )
    } 1 .. 10;
    $_->join for @all;
    is "$most $count", '1 100', 'one holder at a time';

    my $held = $locks->lock('held');
    my $lost = 0;
    $held->on_lost( sub { $lost++ } );
    Coro::AnyEvent::sleep(6.5);
    ok $held->is_held, 'is renewed while the loop runs';
    my $waits = Coro::async(
        sub {
            eval { $locks->lock( 'held', timeout => GENEROUS ) };
            "$@";
        }
    );
    Coro::AnyEvent::sleep(0.1);
    $waits->throw("enough\n");
    is $waits->join, "enough\n", 'a coroutine that waits is thrown at';
    $locks->force_release('held');
    ok eventually { Coro::AnyEvent::sleep(0.01); $lost }, 'a loss is told';
    ok !eval { $held->check; 1 },                         'and checked';
    isa_ok $@, 'Pinyon::Error::LockLost';
    { my $scoped = $locks->lock( 'scoped', ttl => GENEROUS * 10 ); }
    is $locks->lock( 'scoped', timeout => GENEROUS )->release, 1, 'the end of a scope releases';
    ok !eval { my $one = $locks->lock('own'); $locks->lock( 'own', timeout => 1 ); 1 }, 'a coroutine does not wait for itself';
    isa_ok $@, 'Pinyon::Error::AlreadyHeld';

    my $called = Pinyon::AnyEvent::Locks->new( $url, namespace => "l$$", @generous[ 2, 3 ] );
    my $first  = $called->lock('called')->recv;
    my $token;
    my $second = AE::cv();
    $called->lock( 'called', timeout => GENEROUS, cb => sub { $second->send( $_[0] ) } );
    $first->release->recv;
    cmp_ok $second->recv->token, '>', $first->token, 'callbacks hand over a lock';
    is $called->synchronized( sum => sub { my $later = AE::cv(); $later->send(42); $later } )->recv, 42, 'synchronized';
};

subtest 'a coroutine that is thrown at when its lock has just arrived' => sub {
    my @said;
    no warnings 'once';
    local $Coro::State::WARNHOOK = sub { push @said, @_ };
    my $locks   = Pinyon::Coro::Locks->new( $url, namespace => "a$$", @generous[ 2, 3 ] );
    my $other   = Pinyon::Coro::Locks->new( $url, namespace => "a$$", @generous[ 2, 3 ] );
    my $held    = $other->lock('arrives');
    my $waiting = Coro::async(
        sub {
            my $lock = eval { $locks->lock( 'arrives', timeout => GENEROUS ) };
            my $died = $lock ? 'not' : $@;
            return ( $died, $locks->lock( 'arrives', timeout => GENEROUS )->is_held );
        }
    );

    # Runs before each event of the loop, and so after the lock has arrived and before its coroutine goes on.
    my $throwing = Coro::async(
        sub {
            Coro::schedule() while !$waiting->is_ready;
            $waiting->throw("thrown\n");
        }
    );
    ok eventually { $other->waiting('arrives') }, 'it waits';
    my $each_event = EV::check( sub { $throwing->ready } );
    $held->release;
    is_deeply [ $waiting->join ], [ "thrown\n", 1 ], 'may have it once it was given back';
    is_deeply \@said, [];
};

done_testing;
