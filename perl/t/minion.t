use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use File::Temp ();
use Test::More;

use Pinyon;
use Servers qw(eventually have_server locks);

# Unique tasks of Minion, on SQLite, whose jobs run in processes that the test stops and kills.

plan skip_all => 'Minion is not installed'       if !eval { require Minion; require Minion::Backend::SQLite; 1 };
plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

use Pinyon::Minion;

my $folder = File::Temp->newdir;
my $minion = Minion->new( SQLite => "sqlite:$folder/jobs.db" );
$minion->backoff( sub { 1 } );
my $locks  = locks();
my $unique = Pinyon::Minion->new( $minion, $locks );
my $worker = $minion->worker->register;

# Says what it does, and waits until the test opens its gate.
sub gate {
    my ($name) = @_;
    $locks->execute( 'RPUSH', 'told', $name );
    select undef, undef, undef, 0.01 while !$locks->execute( 'EXISTS', "open:$name" );
    return;
}
sub opened { $locks->execute( 'SET', "open:$_", 1 ) for @_; return }
sub told   { return @{ $locks->execute(qw(LRANGE told 0 -1)) } }

sub tells {
    my (@names) = @_;
    return ok eventually { "@{[ told() ]}" eq "@names" }, "@names";
}

# The next job, in its process.
sub begun {
    my ($wait) = @_;
    my $job;
    eventually { $job = $worker->dequeue(0) };
    return $job->start;
}

sub ended {
    my ($job) = @_;
    ok eventually { $job->is_finished }, 'the process ends';
    return $minion->job( $job->id )->info;
}
sub done { my ($job) = @_; return ended($job)->{result} // 'done' }

sub left {
    return grep { !/:#[fp]\z|:#x:|:replaced:/ } @{ $locks->execute( 'KEYS', '{*' ) };
}

$unique->add_task( report => 'report:{0}', sub { my ( $job, undef, $name ) = @_; gate($name); return } );
$unique->add_task(
    newest => sub { return "newest:$_[0]" },
    sub { gate( $_[2] ) },
    on_conflict => 'replace',
    timeout     => 3
);
$unique->add_task(
    alone => 'alone:{0}',
    sub { gate( $_[2] ) },
    when        => 'running',
    on_conflict => 'wait',
    timeout     => 3,
    retry_in    => 0.1
);
$unique->add_task( single => 'single:{0}', sub { gate( $_[2] ) }, when => 'running' );
$unique->add_task( killed => 'killed:{0}', sub { gate( $_[2] ) }, ttl  => 3 );
$unique->add_task(
    again => 'again:{0}',
    sub {
        my ( $job, undef, $how ) = @_;
        die "it has no lock\n"               if !$unique->lock_of($job)->is_held;
        return                               if $job->retries;
        return $job->retry( { delay => 1 } ) if $how eq 'retries';
        die "it fails\n";
    }
);

subtest 'a job that is enqueued is not enqueued again' => sub {
    my $id = $unique->enqueue( report => [ 7, 'first' ] );
    is $unique->enqueue( report => [ 7, 'second' ] ), undef, 'while it waits';
    my $other = $unique->enqueue( report => [ 8, 'other' ], { delay => 10_000, notes => { mine => 1 } } );
    cmp_ok $locks->status('report:8')->{left}, '>', 13_000, 'counted from when it is due';
    is $minion->job($other)->info->{notes}{mine}, 1, 'beside notes of the program';
    $locks->force_release('report:8');
    my $job = begun();
    tells 'first';
    is $job->id, $id;
    is $unique->enqueue( report => [ 7, 'third' ] ), undef, 'while it runs';
    opened(qw(first fourth));
    is done($job), 'done';
    ok $unique->enqueue( report => [ 7, 'fourth' ] );
    is done( begun() ), 'done';
};

subtest 'a later job replaces one that waits in the queue' => sub {
    $locks->execute(qw(DEL told));
    $unique->enqueue( newest => [ 7, $_ ] ) or fail "$_ is not enqueued" for qw(a b);
    is $unique->lock_name( newest => 7 ), 'newest:7';
    like done( begun() ), qr/\Areplaced: a later job/;
    my $job = begun();
    tells 'b';
    ok !eval { $unique->enqueue( newest => [ 7, 'c' ] ); 1 }, 'but not one that runs';
    isa_ok $@, 'Pinyon::Error::LockTimeout';
    opened('b');
    is done($job), 'done';
};

subtest 'jobs that run alone' => sub {
    $locks->execute(qw(DEL told));
    ok $unique->enqueue( $_, [ 7, "$_ 1" ] ) && $unique->enqueue( $_, [ 7, "$_ 2" ] ) for qw(alone single);
    my @jobs;
    for my $kind (qw(alone single)) {
        push @jobs, begun();
        ok eventually {
            grep { $_ eq "$kind 1" } told()
        }, "$kind 1";
        push @jobs, begun();
    }
    my $info = ended( $jobs[1] );
    is $info->{state}, 'inactive', 'wait in the queue';
    like done( $jobs[3] ), qr/\Askipped: another job/, 'or are skipped';
    opened( map { ( "$_ 1", "$_ 2" ) } qw(alone single) );
    is done( $jobs[$_] ), 'done' for 0, 2;
    is done( begun() ), 'done';
    is_deeply [ sort( told() ) ], [ 'alone 1', 'alone 2', 'single 1' ];
};

subtest 'a job that runs again keeps its lock' => sub {
    for my $how (qw(retries fails)) {
        ok $unique->enqueue( again => [ $how, $how ], { attempts => 2 } );
        my $info = ended( begun() );
        is $info->{state}, 'inactive', $how;
        ok $locks->is_locked("again:$how");
        is $unique->enqueue( again => [ $how, $how ] ), undef;
        is done( begun() ),                             'done';
        ok !$locks->is_locked("again:$how");
    }
    ok $unique->enqueue( again => [ 'last', 'fails' ] );
    like done( begun() ), qr/it fails/, 'the last time it does not';
    ok !$locks->is_locked('again:last');
};

subtest 'a job whose process was killed runs again' => sub {
    $locks->execute(qw(DEL told));
    my $id  = $unique->enqueue( killed => [ 7, 'killed' ], { attempts => 2 } );
    my $job = begun();
    tells 'killed';
    $job->kill('KILL');
    is ended($job)->{state}, 'inactive';
    ok $locks->is_locked('killed:7');
    is $unique->enqueue( killed => [ 7, 'other' ] ), undef;
    opened('killed');
    my $again = begun();
    is done($again), 'done';
    is $again->id,   $id;
    tells qw(killed killed);
};

subtest 'a worker that is killed leaves nothing' => sub {
    $locks->execute(qw(DEL told open:killed));
    $unique->enqueue( killed => [ 7, 'killed' ] );
    my $job = begun();
    tells 'killed';
    $job->kill('KILL');
    is ended($job)->{state}, 'failed';
    ok eventually { !left() }, 'after the ttl';
};

subtest 'what makes no sense is refused' => sub {
    for my $refused (
        sub { Pinyon::Minion->new( $locks, $minion ) },
        sub {
            $unique->add_task( bad => 'report:{n}', sub { } );
        },
        sub {
            $unique->add_task( bad => undef, sub { } );
        },
        sub { $unique->add_task( bad => 'report:{0}' ) },
        sub {
            $unique->add_task( bad => 'report:job:{0}', sub { } );
        },
        sub {
            $unique->add_task( bad => 'report:{0}', sub { }, wen => 'running' );
        },
        sub { $unique->enqueue( nothing => [7] ) },
        sub { $unique->enqueue( report  => [] ) },
        )
    {
        ok !eval { $refused->(); 1 };
        isa_ok $@, 'Pinyon::Error::Usage';
    }
};

$worker->unregister;
done_testing;
