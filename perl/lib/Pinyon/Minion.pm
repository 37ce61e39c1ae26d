package Pinyon::Minion;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use List::Util   qw(max);
use Scalar::Util qw(blessed reftype);
use Time::HiRes  ();

use Pinyon                     ();
use Pinyon::Minion::OneAtATime ();

# The note of a job that says whose lock it has.
use constant CLAIM => 'pinyon';

sub new {
    my ( $class, $minion, $locks ) = @_;
    if ( !blessed $minion || !$minion->isa('Minion') ) {
        Pinyon::Error::Usage->throw('Pinyon::Minion->new takes a Minion and a Pinyon::Locks');
    }
    return bless { minion => $minion, locks => $locks, kinds => {}, runs => {} }, $class;
}

sub add_task {
    my ( $self, $task, $name, $code, %terms ) = @_;
    if ( ( reftype( $code // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('add_task takes a task, the name of its lock, and a reference to a sub');
    }
    my $kind = {
        rules   => Pinyon::Minion::OneAtATime->new( $self->{locks}, %terms ),
        name_of => _name_of($name),
        code    => $code,
    };
    $self->{kinds}{$task} = $kind;
    $self->{minion}->add_task( $task => sub { $self->_work( $kind, @_ ) } );
    return $self;
}

sub enqueue {
    my ( $self, $task, $arguments, $options ) = @_;
    my $kind  = $self->_kind($task);
    my %given = %{ $options // {} };
    my $claim = eval { $kind->{rules}->enqueue( $kind->{name_of}->( @{ $arguments // [] } ), $given{delay} ) };
    if ( my $error = $@ ) {
        return if _conflict($error);
        die $error;
    }
    $given{notes} = { %{ $given{notes} // {} }, CLAIM, $claim } if defined $claim;
    my $id = eval { $self->{minion}->enqueue( $task, $arguments // [], \%given ) };
    return $id if defined $id;
    my $error = $@;
    $kind->{rules}->give_up($claim);
    die $error;
}

sub lock_name {
    my ( $self, $task, @arguments ) = @_;
    return $self->_kind($task)->{name_of}->(@arguments);
}

sub lock_of {
    my ( $self, $job ) = @_;
    my $run = $self->{runs}{ $job->id };
    return $run && $run->lock;
}

sub _kind {
    my ( $self, $task ) = @_;
    return $self->{kinds}{$task}
        // Pinyon::Error::Usage->throw("there is no unique task $task: add it by add_task of Pinyon::Minion");
}

# Runs a job alone. Minion calls it in a process of its own.
sub _work {
    my ( $self, $kind, $job, @arguments ) = @_;
    my $rules = $kind->{rules};
    my $run   = eval {
        $rules->begin( $kind->{name_of}->(@arguments), $job->id, sub { $job->info->{notes}{ CLAIM() } } );
    };
    return _not_run( $rules, $job, $@ ) if !$run;
    $self->{runs}{ $job->id } = $run;
    my $is_done = eval { $kind->{code}->( $job, @arguments ); 1 };
    my $error   = $@;
    delete $self->{runs}{ $job->id };
    my $is_kept = eval { _keep( $rules, $job, $run, $is_done ); 1 } || $@;
    $run->end( !$is_done );
    die $error   if !$is_done;
    die $is_kept if ref $is_kept || $is_kept ne '1';
    return;
}

# What becomes of a job that must not run: its result says so. While the server of the locks is away, it waits in the queue.
sub _not_run {
    my ( $rules, $job, $error ) = @_;
    my $conflict = _conflict($error);
    if ( $conflict ? $conflict->kind eq 'later' : _is_outage($error) ) {
        $job->retry( { delay => $rules->retry_in } );
        return;
    }
    die $error if !$conflict;
    $job->finish( $conflict->kind . ': ' . $conflict->message );
    return;
}

# Hands the lock of a job on to the next time that it runs, if there is one.
sub _keep {
    my ( $rules, $job, $run, $is_done ) = @_;
    return if !$rules->from_enqueueing;
    my $info    = $job->info;
    my $is_back = $info->{state} eq 'inactive';
    return if !$is_back && ( $is_done || $info->{attempts} <= 1 );
    my $delay = $is_back ? max( 0, ( $info->{delayed} // 0 ) - Time::HiRes::time() ) : $job->minion->backoff->( $job->retries );
    $job->note( CLAIM, $run->hand_on( $rules->queue_ttl + $delay ) );
    return;
}

sub _conflict {
    my ($error) = @_;
    return blessed $error && $error->isa('Pinyon::Minion::OneAtATime::Conflict') ? $error : undef;
}

sub _is_outage {
    my ($error) = @_;
    return blessed $error && grep { $error->isa("Pinyon::Error::$_") } qw(Timeout Connect ConnectionLost ServerDown);
}

# Returns a sub that makes the name of a lock from a job's arguments.
sub _name_of {
    my ($name) = @_;
    return $name if ( reftype( $name // q{} ) // q{} ) eq 'CODE';
    require Pinyon::Cached;
    if ( !defined $name || ref $name || $name eq q{} ) {
        Pinyon::Error::Usage->throw(
            'add_task needs the name of a lock, such as "report:{0}", or a sub that makes it of the arguments');
    }
    Pinyon::Minion::OneAtATime::check_name($name);
    return Pinyon::Cached::_key_of($name);    ## no critic (ProtectPrivateSubs)
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Minion - tasks of Minion of which one of a kind is enqueued, or runs, at a time

=head1 SYNOPSIS

    use Minion;
    use Minion::Backend::SQLite ();
    use Pinyon;
    use Pinyon::Minion;

    my $minion = Minion->new( SQLite => ':temp:' );
    my $locks  = Pinyon::Locks->new( 'redis://127.0.0.1:6379/0', namespace => 'app' );
    my $unique = Pinyon::Minion->new( $minion, $locks );
    $unique->add_task(
        report => 'report:{0}',
        sub {
            my ( $job, $number ) = @_;
            return;
        }
    );
    my $id = $unique->enqueue( report => [7] );    # undef if this report is enqueued or runs already

=head1 DESCRIPTION

Each task has a lock on a Redis or Valkey server, whose name is made of the arguments of a job. A worker that dies keeps the lock of
its job for C<ttl> seconds. When Minion runs the job again, it waits for that time. When it retries a job, the job keeps its lock.

=head1 METHODS

=head2 new($minion, $locks)

Takes a L<Minion> with any backend, and a L<Pinyon::Locks>.

=head2 add_task($task, $name, $sub, %options)

Adds a task. The name of its lock has numbers of arguments in braces, as in C<report:{0}>, or is a sub that makes it of the
arguments. A name with C<:job:> or C<:replaced:> in it, or C<:runs> at the end, is refused. The sub gets the job and its arguments, as
with Minion. The options:

=over

=item when

C<enqueued>, the default, locks a job from C<enqueue> until it has run; C<running> locks it while it runs.

=item on_conflict

What becomes of a second job. C<skip>, the default: it is not enqueued, or does not run. C<wait>: C<enqueue> waits until it can be
enqueued, or the job goes back into the queue until it can run. C<replace>: it takes the place of one that has not begun, and waits
for one that runs.

=item ttl

Seconds for which a lock outlives a worker that has died, by default 10. While the job runs, Pinyon renews the lock.

=item timeout

Seconds to wait, by default as for the locks. Then C<enqueue> dies with C<Pinyon::Error::LockTimeout>, and a worker puts the job
back into the queue.

=item queue_ttl

Seconds for which an enqueued job is locked without a worker, counted from when it is due, by default 3600. Then another one may be
enqueued, and the first takes the lock anew if it is free when a worker takes it.

=item retry_in

Seconds after which a job runs again that was put back into the queue, by default 10.

=back

A job that must not run ends as C<finished>, and its result begins with C<skipped:> or C<replaced:>.

=head2 enqueue($task, $arguments, $options)

Enqueues a job as Minion does, and returns its id. Returns nothing if the job is skipped. Jobs that are enqueued by C<enqueue> of
Minion itself are locked when they run.

=head2 lock_name($task, @arguments)

Returns the name of the lock of a job with these arguments.

=head2 lock_of($job)

Returns the L<Pinyon::Lock> of a job that runs in this process, with its fencing token.

=cut
