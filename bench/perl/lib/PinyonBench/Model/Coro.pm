package PinyonBench::Model::Coro;

# Coroutines of Coro, on the event loop EV.

use v5.36;
use AnyEvent ();
use Coro;
use Coro::AnyEvent ();
use Coro::Semaphore;
use EV                 ();
use PinyonBench::Clock qw(now);
use PinyonBench::Loops qw(compare do_each);

sub name ($) {
    return 'coro';
}

sub version ($) {
    return sprintf 'Perl %vd, Coro %s, EV %s', $^V, Coro->VERSION, EV->VERSION;
}

# A coroutine for each list.
sub in_loops ( $class, $calls, $operation, $parts, $seconds = undef ) {
    $calls->required($operation);
    return $class->together(
        map {
            my $items = $_;
            sub { do_each( $calls, $operation, $items, $seconds ) }
        } @$parts
    );
}

# The program of seed 003: a coroutine for each item, all started at once, and a semaphore that lets so many work at a time.
sub behind_semaphore ( $, $calls, $operation, $items, $concurrency, $seconds = undef ) {
    my $semaphore = Coro::Semaphore->new($concurrency);
    my ( $client, $code, $stores ) = ( $calls->{client}, $calls->required($operation), $operation eq 'set' );
    my $error;
    my @started = map {
        my $item = $_;
        async {
            $semaphore->down;
            my $start = $seconds && now();
            my $reply = eval { $client->$code( $stores ? @$item : $item->[0] ) };
            push @$seconds, now() - $start if $seconds;
            if ( $stores ? !$reply : !defined $reply || !defined $item->[1] || $reply ne $item->[1] ) {
                my $right = !$@ && eval { compare( $operation, $item, $reply ) };
                $error //= $@ if !$right;
            }
            $semaphore->up;
        }
    } @$items;
    $_->join for @started;
    die $error if $error;
    return;
}

# Does all works at once, each in a coroutine. Dies with the first error.
sub together ( $, @works ) {
    my $error;
    my @started = map {
        my $work = $_;
        async {
            my $done = eval { $work->(); 1 };
            $error //= $@ if !$done;
        }
    } @works;
    $_->join for @started;
    die $error if $error;
    return;
}

# Lets the others run for so long.
sub pause ( $, $seconds ) {
    Coro::AnyEvent::sleep($seconds);
    return;
}

1;
