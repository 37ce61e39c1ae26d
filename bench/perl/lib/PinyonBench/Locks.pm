package PinyonBench::Locks;

# Verifies and times a lock library on rows of locks. Keeps its client between requests.

use v5.36;
use PinyonBench::CannotDo;
use PinyonBench::Clock qw(latency_of now timed);
use PinyonBench::Tally;

# Of the choices of names.
use constant DRAWS_SEED => 19;

# How long a worker stays inside during verification: long enough for another to come in, if it could.
use constant INSIDE_SECONDS => 1e-4;

my %WORKLOADS = map { $_ => 1 } qw(pair mutex);

sub new ( $class, $client, $model ) {
    return bless {client => $client, model => $model, connected => {}}, $class;
}

# Does the row's cycles. Dies if two workers were inside at once.
sub verify ( $self, $row ) {
    my $tally = PinyonBench::Tally->new;
    my $start = now();
    $self->_run( $row, $tally, \&_checked );
    my $wall = now() - $start;
    $tally->require_alone;
    $tally->require_count( $row->{count} );
    return {wall => $wall, cycles => $tally->count};
}

# Times the row's cycles, after those that warm up.
sub time ( $self, $row ) {
    $self->_run( {%$row, count => $row->{warmup}}, PinyonBench::Tally->new, \&_cycle ) if $row->{warmup};
    my $tally  = PinyonBench::Tally->new;
    my $timing = timed( sub { $self->_run( $row, $tally, \&_cycle ) } );
    $tally->require_count( $row->{count} );
    return {%$timing, cycles => $tally->count, latency => latency_of( $tally->seconds )};
}

sub _run ( $self, $row, $tally, $cycle ) {
    PinyonBench::CannotDo->throw('no locks')                     if !$self->{client}->can('connect_locks');
    PinyonBench::CannotDo->throw("no workload $row->{workload}") if !$WORKLOADS{$row->{workload}};
    my $lock  = $self->{connected}{$row->{server}} //= $self->{client}->connect_locks( @$row{qw(server ttl)} );
    my $draws = _draws($row);
    my $model = $self->{model};
    my $work  = sub { $cycle->( $model, $lock, $draws, $tally ) };
    return $model->together( ($work) x $row->{workers} );
}

# Returns the names of each cycle, random but the same every time. Workers take them from it.
sub _draws ($row) {
    srand DRAWS_SEED;
    return [ map { _sample( $row->{names}, $row->{keys} ) } 1 .. $row->{count} ];
}

sub _sample ( $names, $count ) {
    my @left = @$names;
    return [ map { splice @left, int rand @left, 1 } 1 .. $count ];
}

# Locks, counts, unlocks. Reads the clock before each lock and within.
sub _cycle ( $, $lock, $draws, $tally ) {
    while ( my $names = shift @$draws ) {
        my $start = now();
        $lock->( $names, sub { $tally->add( now() - $start ) } );
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
                $tally->add( $entered - $start );
                $model->pause(INSIDE_SECONDS);
                $tally->note( $entered, now() );
            }
        );
    }
    return;
}

1;
