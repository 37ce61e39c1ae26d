package PinyonBench::Clock;

# The clock around a contestant's work.

use v5.36;
use BSD::Resource qw(getrusage RUSAGE_SELF);
use Exporter      qw(import);
use Time::HiRes   qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(now timed);

# Returns a time in seconds; only differences have a meaning.
sub now () {
    return clock_gettime(CLOCK_MONOTONIC);
}

# Does some work. Returns the seconds that it took: by the clock, and of this process's processor time.
sub timed ($work) {
    my ( $user, $system ) = getrusage(RUSAGE_SELF);
    my $start = now();
    $work->();
    my $wall = now() - $start;
    my ( $user_now, $system_now ) = getrusage(RUSAGE_SELF);
    return {wall => $wall, user => $user_now - $user, system => $system_now - $system};
}

1;
