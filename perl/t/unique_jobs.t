use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use JSON::PP   ();
use List::Util qw(pairs);
use POSIX      ();
use Test::More;
use Time::HiRes ();

use Pinyon;
use Pinyon::Minion::OneAtATime;
use Servers qw(eventually have_server locks root);

# One job of a kind at a time: the rules, as scenarios/unique_jobs.json has them for every language.

plan skip_all => 'redis-server is not installed'     if !have_server('redis-server');
plan skip_all => 'the scenarios are in the checkout' if !root();

use constant KIND => 'report:7';

my %long = ( ttl => 60, timeout => 60, queue_ttl => 3600, retry_in => 0.1 );

# What a scenario knows: its terms, a client that watches, and the claims and runs of jobs.
sub playing {
    my ( $number, $scenario ) = @_;
    my $namespace = "jobs$number";
    return {
        namespace => $namespace,
        terms     => { %long, %{ $scenario->{terms} } },
        watching  => locks( namespace => $namespace ),
        claims    => {},
        runs      => {},
    };
}

sub rules {
    my ($playing) = @_;
    my $locks = locks( namespace => $playing->{namespace} );
    return ( Pinyon::Minion::OneAtATime->new( $locks, %{ $playing->{terms} } ), $locks );
}

# What a conflict, or a time that is over, is called.
sub said {
    my ($error) = @_;
    return $error->kind if eval { $error->isa('Pinyon::Minion::OneAtATime::Conflict') };
    return 'timeout'    if eval { $error->isa('Pinyon::Error::LockTimeout') };
    die $error;
}

my %verbs = (
    enqueue => sub {
        my ( $playing, $job ) = @_;
        my ($rules) = rules($playing);
        return said($@) if !eval { $playing->{claims}{$job} = $rules->enqueue(KIND); 1 };
        return defined $playing->{claims}{$job} ? 'claim' : 'nothing';
    },
    begin => sub {
        my ( $playing, $job )   = @_;
        my ( $rules,   $locks ) = rules($playing);
        my $run = eval {
            $rules->begin( KIND, $job, sub { $playing->{claims}{$job} } );
        } or return said($@);
        $playing->{runs}{$job} = { run => $run, locks => $locks };
        return 'runs';
    },
    end => sub {
        my ( $playing, $job ) = @_;
        my $ran = delete $playing->{runs}{$job};
        return 'released' if eval { $ran->{run}->end; 1 };
        my $error = $@;
        die $error if !eval { $error->isa('Pinyon::Error::LockLost') };
        return 'lost';
    },
    retry => sub {
        my ( $playing, $job ) = @_;
        my $ran = delete $playing->{runs}{$job};
        $playing->{claims}{$job} = $ran->{run}->hand_on( $playing->{terms}{queue_ttl} );
        $ran->{run}->end;
        return;
    },
    die => sub {
        my ( $playing, $job ) = @_;
        my $ran = delete $playing->{runs}{$job};
        $ran->{locks}->close;
        return;
    },
    give_up => sub {
        my ( $playing, $job ) = @_;
        ( rules($playing) )[0]->give_up( delete $playing->{claims}{$job} );
        return;
    },
    force_release => sub {
        my ($playing) = @_;
        $playing->{watching}->force_release(KIND) == 1 or die "it was not locked\n";
        return;
    },
    locked => sub {
        my ( $playing, $expected ) = @_;
        eventually( sub { !$playing->{watching}->is_locked(KIND) == !$expected } ) or die "it is not so\n";
        return;
    },
);

sub play {
    my ( $playing, $scenario ) = @_;
    for my $step ( @{ $scenario->{steps} } ) {
        my ($verb) = grep { exists $verbs{$_} } keys %{$step};
        my $given = $verbs{$verb}->( $playing, $step->{$verb} );
        die "$verb $step->{$verb} gives $given, not $step->{gives}\n" if exists $step->{gives} && $given ne $step->{gives};
    }
    my $left = sub {
        return grep { !/:#[fp]\z|:#x:/ } @{ $playing->{watching}->execute( 'KEYS', "{$playing->{namespace}}:*" ) };
    };
    return eventually( sub { !$left->() } ) ? undef : 'something is left';
}

# Each in a process of its own, as most of the time they wait.
my $data = do {
    open my $file, '<:raw', root() . '/scenarios/unique_jobs.json' or die "the scenarios: $!";
    local $/ = undef;
    JSON::PP->new->decode( scalar <$file> );
};
my $scenarios = $data->{scenarios};
locks()->execute('PING');
my @players;
for my $number ( 0 .. $#{$scenarios} ) {
    pipe my $reading, my $writing or die "no pipe: $!";
    my $child = fork // die "no fork: $!";
    if ( !$child ) {
        my $failed =
            eval { play( playing( $number, $scenarios->[$number] ), $scenarios->[$number] ) // 'played' } // "died: $@";
        print {$writing} $failed;
        close $writing or die "it is not told: $!";
        POSIX::_exit(0);
    }
    close $writing or die "no pipe: $!";
    push @players, { child => $child, reading => $reading, name => $scenarios->[$number]{name} };
}
for my $player (@players) {
    my $told = do { local $/ = undef; readline $player->{reading} };
    waitpid $player->{child}, 0;
    is $told, 'played', $player->{name};
}

subtest 'names that the rules use themselves' => sub {
    my $locks = locks();
    for my $name ( @{ $data->{refused_names} } ) {
        for my $when (qw(enqueued running)) {
            my $rules = Pinyon::Minion::OneAtATime->new( $locks, when => $when );
            for my $call (
                sub { $rules->enqueue($name) },
                sub {
                    $rules->begin( $name, 'first', sub { } );
                }
                )
            {
                ok !eval { $call->(); 1 }, $name;
                isa_ok $@, 'Pinyon::Error::Usage';
                like $@, qr/"\Q$name\E"/, 'it is named';
            }
        }
    }
    for my $name ( @{ $data->{names} } ) {
        my $rules = Pinyon::Minion::OneAtATime->new( $locks, when => 'running' );
        ok eval { $rules->begin( $name, 'first' )->end; 1 }, "$name is none" or diag $@;
    }
};

subtest 'options that make no sense' => sub {
    my $locks = locks();
    for my $terms (
        [ when        => 'later' ],
        [ on_conflict => 'raise' ],
        [ when        => 'running', on_conflict => 'replace' ],
        [ ttl         => 0 ],
        [ queue_ttl   => -1 ],
        [ timeout     => 'long' ],
        [ retry_in    => 9**9**9 ],
        [ retries     => 1 ]
        )
    {
        ok !eval { Pinyon::Minion::OneAtATime->new( $locks, @{$terms} ) }, "@{$terms}";
        isa_ok $@, 'Pinyon::Error::Usage';
    }
    ok !eval { Pinyon::Minion::OneAtATime->new('redis://') }, 'no locks';
};

done_testing;
