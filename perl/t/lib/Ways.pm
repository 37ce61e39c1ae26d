package Ways;

# The ways of waiting that play the scenarios. A way says which scenarios it plays, makes clients, carries out one call
# (`wait_for`), and several at the same time (`together`), which return what is wrong.

use 5.016;
use strict;
use warnings;

use Config;
use Time::HiRes ();

use Pinyon ();

# Programs that wait, with threads where calls are to be made at the same time.
{

    package Ways::Blocking;

    sub new { return bless {}, shift }

    sub missing { return }

    sub leaves_makers_behind { return 0 }

    sub plays {
        my ( $self, $scenario ) = @_;
        return 0 if $scenario->{shared};
        return $Config::Config{useithreads} || !grep { $_->{together} } @{ $scenario->{calls} };
    }

    sub cache {
        my ( $self, @settings ) = @_;
        return Pinyon::Cache->new(@settings);
    }

    sub locks {
        my ( $self, @settings ) = @_;
        return Pinyon::Locks->new(@settings);
    }

    sub wait_for {
        my ( $self, $call ) = @_;
        return scalar $call->();
    }

    # What a method returned, as a value.
    sub got { return $_[1] }

    sub pause {
        my ( $self, $seconds ) = @_;
        return Time::HiRes::sleep($seconds);
    }

    sub together {
        my ( $self, @calls ) = @_;
        require threads;
        return map { $_->join } map { threads->create($_) } @calls;
    }
}

# Programs with an event loop. Calls at the same time are coroutines; in the other models they wait for condvars and
# futures, so that one player does for all.
{

    package Ways::Coro;

    our @ISA = ('Ways::Blocking');    ## no critic (ProhibitExplicitISA)

    sub modules { return qw(EV Coro Coro::AnyEvent Pinyon::Coro) }

    # Says what is missing to play this way.
    sub missing {
        my ($self) = @_;
        for my $module ( $self->modules ) {
            next if eval "require $module; 1";    ## no critic (ProhibitStringyEval)
            return $module;
        }
        return;
    }

    sub plays { return 1 }

    sub leaves_makers_behind { return 1 }

    sub cache {
        my ( $self, @settings ) = @_;
        return Pinyon::Coro::Cache->new(@settings);
    }

    sub locks {
        my ( $self, @settings ) = @_;
        return Pinyon::Coro::Locks->new(@settings);
    }

    sub pause {
        my ( $self, $seconds ) = @_;
        return Coro::AnyEvent::sleep($seconds);
    }

    sub together {
        my ( $self, @calls ) = @_;
        return map { $_->join } map { &Coro::async($_) } @calls;
    }

    package Ways::AnyEvent;

    our @ISA = ('Ways::Coro');    ## no critic (ProhibitExplicitISA)

    sub modules { return qw(EV Coro Coro::AnyEvent Pinyon::AnyEvent) }

    sub cache {
        my ( $self, @settings ) = @_;
        return Pinyon::AnyEvent::Cache->new(@settings);
    }

    sub locks {
        my ( $self, @settings ) = @_;
        return Pinyon::AnyEvent::Locks->new(@settings);
    }

    sub got {
        my ( $self, $condvar ) = @_;
        return scalar $condvar->recv;
    }

    package Ways::Future;

    our @ISA = ('Ways::Coro');    ## no critic (ProhibitExplicitISA)

    sub modules { return qw(Coro IO::Async::Loop Pinyon::Future) }

    sub cache {
        my ( $self, @settings ) = @_;
        return Pinyon::Future::Cache->new(@settings);
    }

    sub locks {
        my ( $self, @settings ) = @_;
        return Pinyon::Future::Locks->new(@settings);
    }

    # The loop runs in a coroutine of its own.
    sub got {
        my ( $self, $future ) = @_;
        $self->{pump}{$$} ||= &Coro::async(
            sub {
                my $loop = IO::Async::Loop->new;
                while (1) {
                    $loop->loop_once(0.02);
                    Coro::cede();
                }
            }
        );
        if ( !$future->is_ready ) {
            my $rouse = Coro::rouse_cb();
            $future->on_ready( sub { $rouse->() } );
            Coro::rouse_wait($rouse);
        }
        return scalar $future->get;
    }

    sub pause {
        my ( $self, $seconds ) = @_;
        return $self->got( IO::Async::Loop->new->delay_future( after => $seconds ) );
    }

    # For players that make one call after another: no coroutine runs Mojolicious's loop.
    package Ways::Mojo;

    our @ISA = ('Ways::Coro');    ## no critic (ProhibitExplicitISA)

    sub modules { return qw(Mojo::IOLoop Mojo::Promise Pinyon::Mojo) }

    sub cache {
        my ( $self, @settings ) = @_;
        return Pinyon::Mojo::Cache->new(@settings);
    }

    sub locks {
        my ( $self, @settings ) = @_;
        return Pinyon::Mojo::Locks->new(@settings);
    }

    sub got {
        my ( $self, $promise ) = @_;
        my ( $value, $error );
        $promise->then( sub { $value = $_[0] }, sub { $error = $_[0] } )->wait;
        die $error if defined $error;
        return $value;
    }

    sub pause {
        my ( $self, $seconds ) = @_;
        return $self->got( Mojo::Promise->timer($seconds) );
    }
}

1;
