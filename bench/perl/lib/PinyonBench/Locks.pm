package PinyonBench::Locks;

# Does rows of locks. Keeps its client between requests.

use v5.36;
use PinyonBench::CannotDo;
use PinyonBench::Clock qw(now timed);

# How long a worker stays inside during verification: long enough for another to come in, if it could.
use constant INSIDE_SECONDS => 1e-4;

my %WORKLOADS = map { $_ => 1 } qw(pair mutex);

sub new ( $class, $client, $model ) {
    return bless {client => $client, model => $model, connected => {}}, $class;
}

# Times the row's cycles, after those that warm up. Tells how long single calls took, and when each worker was inside.
sub play ( $self, $row ) {
    my $tally = {seconds => [], inside => []};
    $self->_run( {%$row, count => $row->{warmup}}, {} ) if $row->{warmup};
    my $timing = timed( sub { $self->_run( $row, $tally ) } );
    return {%$timing, cycles => scalar @{$tally->{seconds}}, %$tally};
}

sub _run ( $self, $row, $tally ) {
    PinyonBench::CannotDo->throw('no locks')                     if !$self->{client}->can('connect_locks');
    PinyonBench::CannotDo->throw("no workload $row->{workload}") if !$WORKLOADS{$row->{workload}};
    my $lock  = $self->{connected}{$row->{server}} //= $self->{client}->connect_locks( @$row{qw(server ttl)} );
    my @draws = map { [ @{$row->{names}}[@$_] ] } @{$row->{draws}}[ 0 .. $row->{count} - 1 ];
    my $cycle = $row->{check} ? \&_checked : \&_cycle;
    my $model = $self->{model};
    my $work  = sub { $cycle->( $model, $lock, \@draws, $tally ) };
    return $model->together( ($work) x $row->{workers} );
}

# Locks, counts, unlocks. Reads the clock before each lock and within.
sub _cycle ( $, $lock, $draws, $tally ) {
    while ( my $names = shift @$draws ) {
        my $start = now();
        $lock->( $names, sub { push @{$tally->{seconds}}, now() - $start } );
    }
    return;
}

# The same, and stays inside for a while, so that others have time to enter.
sub _checked ( $model, $lock, $draws, $tally ) {
    while ( my $names = shift @$draws ) {
        my $start = now();
        $lock->(
            $names,
            sub {
                my $entered = now();
                push @{$tally->{seconds}}, $entered - $start;
                $model->pause(INSIDE_SECONDS);
                push @{$tally->{inside}}, [ $entered, now() ];
            }
        );
    }
    return;
}

1;
