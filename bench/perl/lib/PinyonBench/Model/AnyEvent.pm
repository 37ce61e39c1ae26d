package PinyonBench::Model::AnyEvent;

# Chains of callbacks on AnyEvent's loop, which is EV: each callback makes the next call.

use v5.36;
use AnyEvent ();
use EV       ();
use PinyonBench::CannotDo;
use PinyonBench::Clock qw(now);
use PinyonBench::Loops qw(compare);

sub name ($) {
    return 'anyevent';
}

sub version ($) {
    return sprintf 'Perl %vd, AnyEvent %s, EV %s', $^V, AnyEvent->VERSION, EV->VERSION;
}

# A chain of callbacks for each list. Dies with the first error.
sub in_loops ( $, $calls, $operation, $parts, $seconds = undef ) {
    my $done = AnyEvent->condvar;
    my $error;
    $done->begin;
    for my $items (@$parts) {
        $done->begin;
        _chain( $calls, $operation, $items, $seconds, sub ($failed) { $error //= $failed; $done->end } );
    }
    $done->end;
    $done->recv;
    die $error if defined $error;
    return;
}

sub behind_semaphore {
    return PinyonBench::CannotDo->throw('no coroutines');
}

sub together {
    return PinyonBench::CannotDo->throw('no coroutines');
}

# Makes one call after another for the items of a list, then calls `$done`, with an error if there was one. Every reply is
# compared.
sub _chain ( $calls, $operation, $items, $seconds, $done ) {
    my ( $client, $code ) = ( $calls->{client}, $calls->required($operation) );
    my $stores = $operation eq 'set';
    my ( $item, $start, $next );
    my $ended   = sub ($failed) { undef $next; return $done->($failed) };
    my $replied = sub ( $reply = undef, $error = undef, @ ) {
        push @$seconds, now() - $start if $seconds;
        if ( $stores ? !$reply : !defined $reply || !defined $item->[1] || $reply ne $item->[1] ) {
            my $right = !$error && eval { compare( $operation, $item, $reply ) };
            return $ended->( $error ? "$operation $item->[0]: $error" : $@ ) if !$right;
        }
        return $next->();
    };
    $next = sub {
        $item = shift @$items;
        return $ended->(undef) if !$item;
        $start = now()         if $seconds;

        # The event loop would swallow an error of a callback, and the chain would not end.
        my $begun = eval {
            $client->$code( $item->[0], $stores ? $item->[1] : (), cb => $replied );
            1;
        };
        return $begun || $ended->($@);
    };
    $next->();
    return;
}

1;
