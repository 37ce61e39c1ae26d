package Models;

# How workers run at the same time, how they wait, and how the wait for a lock is cancelled.

use 5.016;
use strict;
use warnings;

use POSIX       ();
use Time::HiRes ();

use Recorder qw(now nanoseconds);

use constant NAMESPACE => 'verify';

# Seconds that a forked child may take.
use constant CHILD => 30;

my %class = ( 'perl-threads' => 'Models::Threads', 'perl-alarm' => 'Models::Alarm', 'perl-coro' => 'Models::Coro' );

sub of {
    my ($name) = @_;
    my $class = $class{$name} or die "no model is named $name\n";
    $class->load;
    return bless {}, $class;
}

# Where a model's locks come from.
sub settings {
    my ($settings) = @_;
    my $connect = $settings->{command_timeout} > 1 ? $settings->{command_timeout} : 1;
    return (
        $settings->{url},
        namespace       => NAMESPACE,
        connect_timeout => $connect,
        map { ( $_ => $settings->{$_} ) } qw(ttl heartbeat command_timeout handler fairness),
    );
}

# Ithreads. They are cancelled by the lock's own timeout.
package Models::Threads;

sub load { require Pinyon; return }

sub locks {
    my ( $self, $settings ) = @_;
    return Pinyon::Locks->new( Models::settings($settings) );
}

sub run {
    my ( $self, @works ) = @_;
    my @threads = map { threads->create($_) } @works;
    $_->join for @threads;
    return;
}

sub sleep {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $seconds ) = @_;
    Time::HiRes::sleep($seconds);
    return;
}

# Asks for the lock with these options, until it is cancelled. Dies of a Pinyon::Error.
sub acquire {
    my ( $self, $ask, $options, $cancel_after ) = @_;
    return $ask->( %{$options}, defined $cancel_after ? ( timeout => $cancel_after ) : () );
}

# Waits for a child, and calls something meanwhile. Returns its status.
sub status_of {
    my ( $self, $child, $meanwhile ) = @_;
    my $give_up = Recorder::now() + Recorder::nanoseconds(Models::CHILD);
    my $ended   = $self->ending_of($child);
    my $status;
    while ( !defined( $status = $ended->() ) ) {
        kill 'KILL', $child if Recorder::now() > $give_up;
        $self->sleep(0.002);
        $meanwhile->();
    }
    return $status;
}

sub ending_of {
    my ( $self, $child ) = @_;
    return sub { return waitpid( $child, POSIX::WNOHANG() ) == $child ? $? : undef };
}

# Whether a candidate goes on in the background.
sub has_background { return 0 }

sub cancelled { return Pinyon::Error::LockTimeout->new( message => 'cancelled' ) }

# A program that only waits. A handler that dies cancels its one worker.
package Models::Alarm;

our @ISA = ('Models::Threads');    ## no critic (ProhibitExplicitISA)

my $is_armed;

sub run {
    my ( $self, @works ) = @_;
    die "a program that waits has one worker\n" if @works > 1;
    local $SIG{ALRM} = sub { die "cancelled\n" if $is_armed };

    # Perl says it of a handler that dies in the end of a lock that was not acquired.
    local $SIG{__WARN__} = sub { warn @_ if $_[0] !~ /in cleanup/ };
    $works[0]->();
    return;
}

sub acquire {
    my ( $self, $ask, $options, $cancel_after ) = @_;
    return $ask->( %{$options} ) if !defined $cancel_after;
    my ( $held, $error );
    $is_armed = 1;

    # The outer one is for a signal that comes when the inner one is over.
    eval {
        eval {
            Time::HiRes::ualarm( 1 + int $cancel_after * 1e6 );
            $held = $ask->( %{$options} );
            1;
        } or $error = $@;
        $is_armed = 0;
        1;
    } or $error = $@;
    $is_armed = 0;
    Time::HiRes::ualarm(0);
    return $held if $held;
    die $error eq "cancelled\n" ? $self->cancelled : $error;
}

# Coroutines of Coro's. They are cancelled by `throw`, after some seconds or turns.
package Models::Coro;

our @ISA = ('Models::Threads');    ## no critic (ProhibitExplicitISA)

sub load {
    require EV;
    require Pinyon::Coro;
    return;
}

sub locks {
    my ( $self, $settings ) = @_;
    return Pinyon::Coro::Locks->new( Models::settings($settings) );
}

sub run {
    my ( $self, @works ) = @_;
    my @coroutines = map { Coro::async($_) } @works;
    $_->join for @coroutines;
    return;
}

sub sleep {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $seconds ) = @_;
    Coro::AnyEvent::sleep($seconds);
    return;
}

sub acquire {
    my ( $self, $ask, $options, $cancel_after ) = @_;
    return $ask->( %{$options} ) if !defined $cancel_after;
    my ( $held, $error );
    my $waits    = 1;
    my $worker   = $Coro::current;
    my $cancel   = sub { $worker->throw("cancelled\n") if $waits };
    my $canceled = $cancel_after < 0 ? _after_turns( -$cancel_after, $cancel ) : AE::timer( $cancel_after, 0, $cancel );
    eval { $held = $ask->( %{$options} ); 1 } or $error = $@;
    $waits = 0;
    return $held if $held;
    die $error eq "cancelled\n" ? $self->cancelled : $error;
}

sub _after_turns {
    my ( $turns, $code ) = @_;
    return Coro::async(
        sub {
            Coro::cede() for 1 .. $turns;
            $code->();
        }
    );
}

sub has_background { return 1 }

# EV takes the status of every child.
sub ending_of {
    my ( $self, $child ) = @_;
    my $status;
    my $watcher = AE::child( $child, sub { $status = $_[1] } );
    return sub { return $watcher && $status };
}

1;
