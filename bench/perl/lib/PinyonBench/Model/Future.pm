package PinyonBench::Model::Future;

# Futures that are awaited, on the event loop of IO::Async.

use v5.36;
use Future ();
use Future::AsyncAwait;
use IO::Async::Loop ();
use PinyonBench::CannotDo;
use PinyonBench::Clock qw(now);
use PinyonBench::Loops qw(compare);

my $LOOP = IO::Async::Loop->new;

sub name ($) {
    return 'future';
}

sub version ($) {
    return sprintf 'Perl %vd, Future %s, %s %s', $^V, Future->VERSION, ref $LOOP, IO::Async::Loop->VERSION;
}

# Returns the event loop.
sub loop ($) {
    return $LOOP;
}

# Returns a future for what a function returns in the next turn of the loop.
sub later ( $, $work ) {
    return $LOOP->later->then( sub { return Future->done( $work->() ) } );
}

# An asynchronous sub for each list. Dies with the first error.
sub in_loops ( $, $calls, $operation, $parts, $seconds = undef ) {
    $calls->required($operation);
    Future->needs_all( map { _each( $calls, $operation, $_, $seconds ) } @$parts )->get;
    return;
}

sub behind_semaphore {
    return PinyonBench::CannotDo->throw('no coroutines');
}

sub together {
    return PinyonBench::CannotDo->throw('no coroutines');
}

async sub _each ( $calls, $operation, $items, $seconds ) {
    my ( $client, $code ) = @$calls{'client', $operation};
    my $stores = $operation eq 'set';
    while ( my $item = shift @$items ) {
        my $start = $seconds && now();
        my $reply = await( $stores ? $client->$code( $item->[0], $item->[1] ) : $client->$code( $item->[0] ) );
        push @$seconds, now() - $start if $seconds;
        compare( $operation, $item, $reply )
            if $stores ? !$reply : !defined $reply || !defined $item->[1] || $reply ne $item->[1];
    }
    return;
}

1;
