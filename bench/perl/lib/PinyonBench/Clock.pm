package PinyonBench::Clock;

# The clock around a contestant's work, and what single calls took.

use v5.36;
use BSD::Resource qw(getrusage RUSAGE_SELF);
use Exporter      qw(import);
use List::Util    qw(sum0);
use POSIX         qw(ceil);
use Time::HiRes   qw(clock_gettime CLOCK_MONOTONIC);

our @EXPORT_OK = qw(now timed latency_of);

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

# Returns mean, median, 99th percentile and maximum of single calls; undef without any.
sub latency_of ($seconds) {
    my @ordered = sort { $a <=> $b } @$seconds;
    my $count   = @ordered;
    return !$count
        ? undef
        : {
        mean    => sum0(@ordered) / $count,
        median  => $ordered[ int( ( $count - 1 ) / 2 ) ],
        p99     => $ordered[ ceil( $count * 0.99 ) - 1 ],
        longest => $ordered[-1],
        };
}

1;
