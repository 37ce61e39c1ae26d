package Pinyon::Leader;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(reftype);
use Time::HiRes  ();

use Pinyon ();

# Without end.
use constant FOR_EVER => 9**9**9;

my %KNOWN = map { $_ => 1 } qw(on_elected on_lost ttl);

# `leader` of Pinyon::Locks makes them.
sub _new {
    my ( $class, $locks, $name, %options ) = @_;
    if ( my ($unknown) = grep { !$KNOWN{$_} } sort keys %options ) {
        Pinyon::Error::Usage->throw(qq{leader has no option "$unknown": it has on_elected, on_lost and ttl});
    }
    for my $callback ( grep { defined $options{$_} } qw(on_elected on_lost) ) {
        next if ( reftype( $options{$callback} ) // q{} ) eq 'CODE';
        Pinyon::Error::Usage->throw("$callback takes a reference to a sub");
    }
    my $self = bless { %options, locks => $locks, name => $name }, $class;
    $self->_begin;
    $self->_next('closed');    # until it is started
    return $self;
}

sub name { return $_[0]{name} }

sub is_leader { return defined $_[0]->token ? 1 : q{} }

sub token {
    my ($self) = @_;
    my $token = Pinyon::Candidate::_token( $self->{candidate} );
    return $token && $self->{lock} && $self->{lock}->is_held ? $token : undef;
}

sub state { return Pinyon::Candidate::_state( $_[0]{candidate} ) }    ## no critic (ProhibitBuiltinHomonyms)

sub resign {
    my ($self) = @_;
    return Pinyon::Candidate::_resign( $self->{candidate} ) ? 1 : q{};
}

sub current {
    my ($self)   = @_;
    my ($status) = $self->{locks}->status( $self->{name} );
    return defined $status->{holder} ? $status : undef;
}

# Campaigns for so many seconds, in the foreground. Returns whether it leads.
sub run {
    my ( $self, $timeout ) = @_;
    my $until = defined $timeout ? Time::HiRes::time() + $timeout : undef;
    if ( $self->state eq 'stopped' ) {
        $self->_begin;
        $self->_next('done');
    }
    1 while $self->_take_step($until);
    return $self->is_leader;
}

# Ends the candidate.
sub stop {
    my ($self) = @_;
    return q{} if $self->{is_calling};
    Pinyon::Candidate::_stop( $self->{candidate} );
    1 while $self->state ne 'stopped' && $self->_take_step(undef);
    return 1;
}

# Takes the step that is due. Returns whether to go on: not if the time is over.
sub _take_step {
    my ( $self, $until ) = @_;
    my ( $step, $about ) = @{ $self->{step} };
    my $left = defined $until ? $until - Time::HiRes::time() : FOR_EVER;
    return                                      if $step eq 'over';
    return $self->_ask( $left < 0 ? 0 : $left ) if $step eq 'ask';
    if ( $step eq 'lead' ) {
        my $goes_on = $left > 0 || !$self->is_leader;
        Time::HiRes::sleep( $left < $about   ? $left  : $about ) if $left > 0 && $self->is_leader;
        $self->_next( $self->{lock}->is_held ? 'done' : 'lock_lost' );
        return $goes_on;
    }
    if ( $step eq 'pause' ) {
        my $paused = ( $self->{paused} //= Time::HiRes::time() ) + $about - Time::HiRes::time();
        if ( $paused > 0 && !Pinyon::Candidate::_is_stopping( $self->{candidate} ) ) {
            Time::HiRes::sleep( $left < $paused ? $left : $paused ) if $left > 0;
            return $left > 0;
        }
        delete $self->{paused};
        $self->_next('done');
        return 1;
    }
    $self->_next( $self->_done( $step, $about ) );
    return 1;
}

# What needs no wait but that for the server.
sub _done {
    my ( $self, $step, $about ) = @_;
    return $self->_called( 'on_elected', $about ) if $step eq 'elected';
    return $self->_called( 'on_lost',    $about ) if $step eq 'lost';
    if ( $step eq 'release' ) {
        my $lock = delete $self->{lock};
        return 'done'            if eval { $lock->release; 1 };
        return _forgotten($lock) if _is_closed($@);
        return 'failed', _said($@);
    }
    $self->_warn($about);
    return 'done';
}

sub _ask {
    my ( $self, $left ) = @_;
    if ( Pinyon::Candidate::_is_stopping( $self->{candidate} ) ) {
        $self->_next('done');
        return 1;
    }
    my $lock;
    if ( eval { $lock = $self->{locks}->lock( $self->{name}, $self->_terms, timeout => $left ); 1 } ) {
        $self->_granted($lock);
        return 1;
    }
    return if ref $@ && $@->isa('Pinyon::Error::LockTimeout');
    $self->_refused($@);
    return 1;
}

sub _begin {
    my ($self) = @_;
    $self->{candidate} = Pinyon::Candidate::_made( $self->{name} );
    return;
}

sub _next {
    my ( $self, $report, $about ) = @_;
    $self->{step} = [ Pinyon::Candidate::_next( $self->{candidate}, $report, $about ) ];
    return;
}

sub _terms {
    my ($self) = @_;
    return ( reentrant => 0, defined $self->{ttl} ? ( ttl => $self->{ttl} ) : () );
}

sub _granted {
    my ( $self, $lock ) = @_;
    $self->{lock} = $lock;
    $self->_next( 'granted', $lock->token );
    return;
}

sub _refused {
    my ( $self, $error ) = @_;
    return $self->_next('closed') if _is_closed($error);
    $self->_next( 'failed', _said($error) );
    return;
}

sub _is_closed { return ref $_[0] && $_[0]->isa('Pinyon::Error::Closed') }

# Whoever closes the client of a leader has its lock end with its ttl: that is no failure, and the lock does not warn.
sub _forgotten {
    my ($lock) = @_;
    $lock->_note_release( 0, 1 );
    return 'closed';
}

sub _called {
    my ( $self, $which, $token ) = @_;
    my $callback = $self->{$which} or return 'done';
    local $self->{is_calling} = 1;
    return eval { $callback->($token); 1 } ? 'done' : ( 'failed', _said($@) );
}

# As an event of the servers.
sub _warn {
    my ( $self, $line ) = @_;
    my $server = $self->{locks}->server;
    $self->{locks}->_tell_event( { kind => 'warning', level => 'warning', message => "$server: $line", server => $server } );
    return;
}

sub _said {
    my ($error) = @_;
    return ref $error && eval { $error->can('message') } ? $error->message : "$error" =~ s/\s+\z//r;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Leader - at most one process leads, for example runs a scheduler

=head1 SYNOPSIS

    use Pinyon;

    my $locks  = Pinyon::Locks->new('redis://127.0.0.1:6379/0', namespace => 'app');
    my $leader = $locks->leader(
        'scheduler',
        on_elected => sub { my ($token) = @_; say 'leads' },
        on_lost    => sub { say 'leads no more' },
    );
    $leader->run(5);     # leads
    $leader->stop;       # leads no more

=head1 DESCRIPTION

C<leader> of L<Pinyon::Locks> makes a candidate for the leadership of a name. Whoever has the lock on the name leads, and the others
wait, first come, first served. If the leader's process dies, another candidate leads after C<ttl>.

C<on_elected> and C<on_lost> are called with the fencing token. Each C<on_elected> is followed by one C<on_lost>, for whatever reason
the leadership has ended. A lock that is not lost is released after C<on_lost> has returned, so the next leader begins later. If a
callback dies, the candidate resigns, and pauses before it is a candidate again. Failures are told to C<on_event> of the client as a
C<warning>.

In event loops (L<Pinyon::AnyEvent>, L<Pinyon::Coro>, L<Pinyon::Future>, L<Pinyon::Mojo>), a candidate goes on in the background: call
C<start>. What a callback returns may be a promise of the model. In a program that waits, it goes on while C<run> runs.

=head1 METHODS

=head2 run($timeout)

Only in programs that wait: campaigns for so many seconds, by default for ever, and returns whether it leads. It calls back meanwhile.
While it leads, its lock is renewed also between the calls; call C<run(0)> now and then, which calls C<on_lost> if the lock was lost.
A candidate that does not lead leaves the queue at the end of the time.

=head2 start

Only in event loops: begins the candidate, and returns it.

=head2 wait($timeout)

Only in event loops: waits until the candidate leads or is stopped, for so many seconds, by default for ever. Returns what other
methods of the client do, and takes a callback C<cb>; its value is whether the candidate leads.

=head2 stop

Ends the candidate. One that leads gives the leadership up first. Returns whether it has ended: not when it is called from a callback
of a program that waits. In event loops, returns what other methods do, and takes a callback C<cb>.

=head2 resign

Gives the leadership up: the candidate waits behind all others. C<is_leader> is false at once; C<on_lost> and the release follow, with
C<run> in programs that wait. Returns whether it led.

=head2 is_leader, token, state

Whether it leads as far as this process can know, with which token, and what it does: C<candidate>, C<leader>, C<resigning>,
C<paused> or C<stopped>. No server is asked.

=head2 current

Asks the server who leads: the hash that C<status> of L<Pinyon::Locks> returns, with C<holder> and C<token>, or C<undef>. It need not be
a candidate itself.

=head2 name

The name of the leadership.

=cut
