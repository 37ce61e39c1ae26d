package Pinyon::Minion::OneAtATime;

# One job of a kind at a time: the rules for any queue of jobs. Python and Ruby have the same, and play the same scenarios.
#
# A kind of job has a lock. A job that is unique from its enqueueing hands its lock over to its own message, so nothing holds it
# but the server, until a worker adopts it. While a job runs, its worker also locks the job's id, and reads the mark "runs" of the
# kind. The id shows a job that is taken again that its own first worker is in its way, dead or alive. The mark shows whether a job
# may be replaced. A job that was replaced is marked by the token of its lock.

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use List::Util   qw(min);
use Scalar::Util qw(blessed looks_like_number);
use Time::HiRes  ();

use Pinyon ();

# How many seconds a job that replaces waits for a running one before it looks again; and how long in all where nothing else is
# said, as Pinyon::Locks has it.
use constant { LOOK => 1, PATIENCE => 10 };

my %DEFAULTS = ( when => 'enqueued', on_conflict => 'skip', ttl => 10, timeout => undef, queue_ttl => 3600, retry_in => 10 );
my %LEAST    = ( ttl  => 0.001, queue_ttl => 0.001, retry_in => 0, timeout => 0 );

sub new {
    my ( $class, $locks, %terms ) = @_;
    if ( !blessed $locks || !$locks->isa('Pinyon::Locks') ) {
        Pinyon::Error::Usage->throw('unique jobs need a Pinyon::Locks');
    }
    if ( my @unknown = grep { !exists $DEFAULTS{$_} } sort keys %terms ) {
        Pinyon::Error::Usage->throw("unique jobs have no option $unknown[0]");
    }
    my $self = bless { %DEFAULTS, %terms, locks => $locks }, $class;
    _one_of( $self, when        => qw(enqueued running) );
    _one_of( $self, on_conflict => qw(skip wait replace) );
    if ( $self->{when} eq 'running' && $self->{on_conflict} eq 'replace' ) {
        Pinyon::Error::Usage->throw(
            'on_conflict => "replace" replaces jobs that wait in the queue: it needs when => "enqueued"');
    }
    for my $term ( sort keys %LEAST ) {
        my ( $given, $least ) = ( $self->{$term}, $LEAST{$term} );
        next if $term eq 'timeout' && !defined $given;
        next if looks_like_number($given) && $given >= $least && $given < 9**9**9;
        Pinyon::Error::Usage->throw( "$term must be seconds, at least $least, not " . ( $given // 'undef' ) );
    }
    return $self;
}

sub from_enqueueing { my ($self) = @_; return $self->{when} eq 'enqueued' }
sub retry_in        { my ($self) = @_; return $self->{retry_in} }
sub queue_ttl       { my ($self) = @_; return $self->{queue_ttl} }

# Locks a job that is about to be enqueued, and that no worker will run before so many seconds. Returns the claim for its message,
# if it needs one. Dies with a conflict if it must not be enqueued, and with LockTimeout if the time to wait is over.
sub enqueue {
    my ( $self, $name, $delay ) = @_;
    check_name($name);
    return if !$self->from_enqueueing;
    my $lock =
        $self->{on_conflict} eq 'skip' ? $self->_try($name)
        // _conflict( skipped => "there is a job that has the lock $name already" )
        : $self->{on_conflict} eq 'wait' ? $self->_take( $name, $self->_timeout )
        :                                  $self->_replace($name);
    return claim( $lock, $self->{queue_ttl} + ( $delay // 0 ) );
}

# Releases the lock of a job that could not be enqueued, if no other one has it by now.
sub give_up {
    my ( $self, $claim ) = @_;
    my $lock = $self->_adopted($claim) or return;
    return $lock->release;
}

# Locks a job that a worker is about to run. The id stays the same when it is taken again. The claim is asked for by a sub, when no
# other worker can change it. Returns the run. Dies with a conflict if it must not run, or not now.
sub begin {
    my ( $self, $name, $id, $claim_of ) = @_;
    check_name($name);
    return Pinyon::Minion::OneAtATime::Run->new( $self->_by_name_with( $name, $id ) ) if !$self->from_enqueueing;
    my $here  = $self->_here( $name, $id );
    my $claim = $claim_of->();
    my $lock  = $self->_adopted($claim) // $self->_by_name( $name, $claim );
    return Pinyon::Minion::OneAtATime::Run->new( $lock, $here );
}

# Refuses the name of a kind that would also be the name of another kind's mark, or of a job of it.
sub check_name {
    my ($name) = @_;
    return if $name !~ /:job:|:replaced:|:runs\z/;
    Pinyon::Error::Usage->throw(
              qq{a job cannot have the lock "$name": unique jobs use names with ":job:" or ":replaced:" in them, }
            . 'or ":runs" at the end, for themselves; change the name' );
    return;
}

# What a message carries: the token of its lock, and the ticket by which a worker adopts it.
sub claim {
    my ( $lock, $ttl ) = @_;
    my $token = $lock->token;
    return $token . q{ } . $lock->hand_over($ttl);
}

sub _conflict {
    my ( $kind, $message ) = @_;
    die bless { kind => $kind, message => $message }, 'Pinyon::Minion::OneAtATime::Conflict';
}

sub _timeout {
    my ($self) = @_;
    return defined $self->{timeout} ? ( timeout => $self->{timeout} ) : ();
}

sub _try {
    my ( $self, $names, %options ) = @_;
    return $self->{locks}->try_lock( $names, ttl => $self->{ttl}, reentrant => 0, %options );
}

sub _take {
    my ( $self, $names, %options ) = @_;
    return $self->{locks}->lock( $names, ttl => $self->{ttl}, reentrant => 0, %options );
}

# The lock, or nothing if the time to wait is over.
sub _taken_in_time {
    my ( $self, $names, %options ) = @_;
    my $lock = eval { $self->_take( $names, %options ) };
    return $lock if $lock;
    my $error = $@;
    return if blessed $error && $error->isa('Pinyon::Error::LockTimeout');
    die $error;
}

# Takes the lock away from a job that waits in the queue. Waits for one that runs.
sub _replace {
    my ( $self, $name ) = @_;
    my $until = Time::HiRes::time() + ( $self->{timeout} // PATIENCE );
    my @replaced;
    while (1) {
        my $left = $until - Time::HiRes::time();
        push @replaced, $self->_take_away($name);
        my $lock =
            $left > 0 ? $self->_taken_in_time( $name, timeout => min( $left, LOOK ) ) : $self->_take( $name, timeout => 0 );
        next if !$lock;
        $self->_mark("$name:replaced:$_") for @replaced;
        return $lock;
    }
    return;
}

# The token first: if the job begins to run now, its token changes, and the lock is not taken away.
sub _take_away {
    my ( $self, $name ) = @_;
    my $locks = $self->{locks};
    my $token = $locks->status($name)->{token} // return;
    return if $locks->is_locked("$name:runs");
    return $locks->force_release( $name, token => $token ) ? $token : ();
}

# Keeps a name locked without a holder, for as long as the message of a replaced job may wait.
sub _mark {
    my ( $self, $name ) = @_;
    my $mark = $self->_try($name) or return;
    $mark->hand_over( $self->{queue_ttl} );
    return;
}

# Locks a kind and a job's id together, so that both end at the same time if the worker dies.
sub _by_name_with {
    my ( $self, $name, $id ) = @_;
    my $names = [ $name, "$name:job:$id" ];
    return $self->_or_later($names) if $self->{on_conflict} eq 'wait';
    my $lock = $self->_try($names);
    return $lock if $lock;

    # A worker may have begun the same job and died: wait for its ttl, and no longer.
    my $left = $self->{locks}->status( $names->[1] )->{left};
    return $self->_taken_in_time( $names, timeout => defined $left ? $left + LOOK : 0 )
        // _conflict( skipped => "another job has the lock $name" );
}

# Locks a job's id, for longer than the lock of its kind would outlive the worker.
sub _here {
    my ( $self, $name, $id ) = @_;
    my $ours    = "$name:job:$id";
    my %options = ( read => "$name:runs", ttl => 2 * $self->{ttl} );
    my $lock    = $self->_try( $ours, %options );
    return $lock if $lock;
    my $left = $self->{locks}->status($ours)->{left} // 0;
    return $self->_taken_in_time( $ours, %options, timeout => $left + LOOK )
        // _conflict( skipped => "this job runs in another worker already: the lock $ours is held" );
}

# Nothing if the claim was used before, its time is over, or a later job has taken the lock away.
sub _adopted {
    my ( $self, $claim ) = @_;
    my ($ticket) = ( $claim // q{} ) =~ /\A[0-9]+ (.+)/s or return;
    my $lock = eval { $self->{locks}->adopt( $ticket, ttl => $self->{ttl} ) };
    return $lock if $lock;
    my $error = $@;
    return if blessed $error && $error->isa('Pinyon::Error::LockLost');
    die $error;
}

sub _by_name {
    my ( $self, $name, $claim ) = @_;
    return $self->_or_later($name) if $self->{on_conflict} eq 'wait';
    my $lock = $self->_try($name);
    if ( $self->{on_conflict} eq 'skip' ) {
        return $lock // _conflict( skipped => "another job has the lock $name" );
    }

    # The mark is looked for with the lock held: whoever replaces sets it before the lock is free again.
    _conflict( replaced => "a later job has the lock $name" ) if !$lock;
    my ($token) = ( $claim // q{} ) =~ /\A([0-9]+)/ or return $lock;
    return $lock if !$self->{locks}->is_locked("$name:replaced:$token");
    $lock->release;
    return _conflict( replaced => "a later job had the lock $name" );
}

sub _or_later {
    my ( $self, $names ) = @_;
    my ($name) = ref $names ? $names->[0] : $names;
    return $self->_taken_in_time( $names, $self->_timeout ) // _conflict( later => "another job has the lock $name" );
}

sub _one_of {
    my ( $self, $term, @known ) = @_;
    my $given = $self->{$term} // 'undef';
    return if grep { $_ eq $given } @known;
    Pinyon::Error::Usage->throw( "$term is " . join( ' or ', @known ) . ", not $given" );
    return;
}

# A job must not be enqueued, or must not run: it is skipped, replaced, or is to run later.
package Pinyon::Minion::OneAtATime::Conflict;

our $VERSION = '0.1.0';

sub kind    { my ($self) = @_; return $self->{kind} }
sub message { my ($self) = @_; return $self->{message} }

# A job that runs, and its locks.
package Pinyon::Minion::OneAtATime::Run;

our $VERSION = '0.1.0';

sub new {
    my ( $class, $lock, $here ) = @_;
    return bless { lock => $lock, here => $here }, $class;
}

sub lock { my ($self) = @_; return $self->{lock} }    ## no critic (ProhibitBuiltinHomonyms)

# A claim for the message with which the job will run again, which must begin within so many seconds.
sub hand_on {
    my ( $self, $ttl ) = @_;
    return Pinyon::Minion::OneAtATime::claim( $self->{lock}, $ttl );
}

# Releases the locks. Dies with LockLost if the lock was lost while the job ran, unless it has failed anyway.
sub end {
    my ( $self, $failed ) = @_;
    my ( $lock, $here )   = delete @{$self}{qw(lock here)};
    my $ended = eval { $failed ? $lock->release : $lock->_ends; 1 };
    my $error = $@;
    $here->release if $here;
    die $error     if !$ended;
    return;
}

1;
