package PinyonBench::Model::Perl;

# Calls that wait, one after another.

use v5.36;
use PinyonBench::CannotDo;
use PinyonBench::Loops qw(do_each);
use Time::HiRes        ();

# Returns the name of the model.
sub name ($) {
    return 'perl';
}

# Returns the versions of what it runs on.
sub version ($) {
    return sprintf 'Perl %vd', $^V;
}

# Does the items of the only list. Dies of more lists, as nothing runs at once here.
sub in_loops ( $, $calls, $operation, $parts, $seconds = undef ) {
    PinyonBench::CannotDo->throw('no concurrency') if @$parts > 1;
    do_each( $calls, $operation, $_, $seconds ) for @$parts;
    return;
}

sub behind_semaphore {
    return PinyonBench::CannotDo->throw('no coroutines');
}

# Does the only work.
sub together ( $, @works ) {
    PinyonBench::CannotDo->throw('no concurrency') if @works > 1;
    $_->() for @works;
    return;
}

# Waits for so long.
sub pause ( $, $seconds ) {
    Time::HiRes::sleep($seconds);
    return;
}

1;
