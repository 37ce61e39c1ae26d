package PinyonBench::Tally;

# What the workers of a cell share: how many cycles they have done, and when each was inside.

use v5.36;
use PinyonBench::WrongResult;

sub new ($class) {
    return bless {seconds => [], inside => []}, $class;
}

# Returns how long each acquisition took.
sub seconds ($self) {
    return $self->{seconds};
}

# Returns the number of cycles.
sub count ($self) {
    return scalar @{$self->{seconds}};
}

# Records a cycle, and how long its lock took to acquire.
sub add ( $self, $seconds ) {
    push @{$self->{seconds}}, $seconds;
    return;
}

# Records when a worker was inside.
sub note ( $self, $entered, $left ) {
    push @{$self->{inside}}, [ $entered, $left ];
    return;
}

# Dies if two workers were inside at the same time.
sub require_alone ($self) {
    my $until = 0;
    for my $stay ( sort { $a->[0] <=> $b->[0] } @{$self->{inside}} ) {
        PinyonBench::WrongResult->throw('two workers were inside at once') if $stay->[0] < $until;
        $until = $stay->[1];
    }
    return;
}

# Dies if the number of cycles is wrong.
sub require_count ( $self, $count ) {
    my $done = $self->count;
    PinyonBench::WrongResult->throw("the counter is $done instead of $count") if $done != $count;
    return;
}

1;
