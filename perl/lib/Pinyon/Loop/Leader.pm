package Pinyon::Loop::Leader;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(refaddr);

use Pinyon::Leader     ();
use Pinyon::Loop       ();
use Pinyon::Loop::Lock ();

our @ISA = ('Pinyon::Leader');    ## no critic (ProhibitExplicitISA)

my %running;                      # those that have not ended

sub start {
    my ($self) = @_;
    if ( $self->state ne 'stopped' ) {
        Pinyon::Error::Usage->throw("the candidate for $self->{name} has been started before: stop it first");
    }
    $self->_begin;
    $running{ refaddr $self } = $self;
    $self->_go_on('done');
    return $self;
}

sub run {
    Pinyon::Error::Usage->throw('in an event loop a candidate goes on in the background: call start');
}

sub resign {
    my ($self) = @_;
    my $led = $self->Pinyon::Leader::resign;
    $self->_wake if $led;
    return $led;
}

sub stop {
    my ( $self, @arguments ) = @_;
    return $self->{locks}->_asked(
        Pinyon::Loop::callback_of( \@arguments ),
        sub {
            my ($told) = @_;
            my $ended = sub { $told->( 1, undef ) };
            if ( $self->state eq 'stopped' ) {
                $self->{locks}{loop}->later($ended);
                return Pinyon::Loop::Operations->new;
            }
            push @{ $self->{ends} }, $ended;
            Pinyon::Candidate::_stop( $self->{candidate} );
            if ( my $asking = delete $self->{asking} ) {
                $asking->cancel;
                $self->{locks}{loop}->later( sub { $self->_go_on('done') } );
            }
            $self->_wake;
            return Pinyon::Loop::Operations->new;
        }
    );
}

sub wait {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    my $timeout  = $arguments[0];
    return $self->{locks}->_asked(
        $callback,
        sub {
            my ($told) = @_;
            my ( $is_told, $timer );
            my $tell = sub {
                undef $timer;
                $told->( $self->is_leader, undef ) if !$is_told++;
            };
            if ( $self->is_leader || $self->state eq 'stopped' ) {
                $self->{locks}{loop}->later($tell);
            }
            else {
                push @{ $self->{waits} }, $tell;
                $timer = $self->{locks}->_after( $timeout, $tell ) if defined $timeout;
            }
            return Pinyon::Loop::Operations->new;
        }
    );
}

sub current {
    my ( $self, @arguments ) = @_;
    return $self->{locks}
        ->Pinyon::Loop::Locks::_about( $self->{name}, \@arguments, sub { defined $_[0][0]{holder} ? $_[0][0] : undef } );
}

# Has those of a client see that it was closed.
sub _wake_all {
    my ($locks) = @_;
    $_->_wake for grep { $_->{locks} == $locks } values %running;
    return;
}

# Takes the next steps, up to one that waits.
sub _go_on {
    my ( $self, @report ) = @_;
    $self->_next(@report);
    my ( $step, $about ) = @{ $self->{step} };
    my $method = $self->can("_begin_$step");
    return $self->$method($about);
}

sub _begin_ask {
    my ($self) = @_;
    my $told = sub {
        my ( $lock, $error ) = @_;
        delete $self->{asking};
        return $self->_go_on( $self->_refusal($error) ) if defined $error;
        $lock->on_lost( sub { $self->_wake } );
        $self->{lock} = $lock;
        $self->_go_on( 'granted', $lock->token );
    };

    # Not the coroutine that tells it how its last leadership ended: that one does so for all candidates.
    my @terms  = ( $self->_terms, owner => Pinyon::_new_owner(), timeout => $self->FOR_EVER, cb => $told );
    my $asking = $self->{locks}->Pinyon::Loop::Locks::_acquired( $self->{name}, \@terms, 0 );
    $self->{asking} = $asking if $self->{step}[0] eq 'ask';
    return;
}

sub _refusal {
    my ( $self, $error ) = @_;
    return $self->{locks}{is_closed} ? 'closed' : ( 'failed', Pinyon::Leader::_said($error) );
}

sub _begin_elected {
    my ( $self, $token ) = @_;
    $_->() for splice @{ $self->{waits} || [] };
    return $self->_call( 'on_elected', $token );
}

sub _begin_lost {
    my ( $self, $token ) = @_;
    return $self->_call( 'on_lost', $token );
}

sub _call {
    my ( $self, $which, $token ) = @_;
    my $callback = $self->{$which} or return $self->_go_on('done');
    $self->{locks}->_carry_out(
        sub { $callback->($token) },
        sub {
            my ( undef, $error ) = @_;
            return $self->_go_on( defined $error ? ( 'failed', Pinyon::Leader::_said($error) ) : 'done' );
        }
    );
    return;
}

sub _begin_lead {
    my ( $self, $look_in ) = @_;
    return $self->_sleep( $self->is_leader ? $look_in : 0,
        sub { $self->_go_on( $self->{lock}->is_held ? 'done' : 'lock_lost' ) } );
}

sub _begin_pause {
    my ( $self, $seconds ) = @_;
    return $self->_sleep( $seconds, sub { $self->_go_on('done') } );
}

sub _begin_release {
    my ($self) = @_;
    my $lock = delete $self->{lock};
    return $self->_go_on( Pinyon::Leader::_forgotten($lock) ) if $self->{locks}{is_closed};
    $lock->Pinyon::Loop::Lock::release(
        cb => sub {
            my ( undef, $error ) = @_;
            return $self->_go_on( defined $error ? ( 'failed', Pinyon::Leader::_said($error) ) : 'done' );
        }
    );
    return;
}

sub _begin_warn {
    my ( $self, $line ) = @_;
    $self->_warn($line);
    return $self->_go_on('done');
}

sub _begin_over {
    my ($self) = @_;
    delete $running{ refaddr $self };
    $_->() for splice( @{ $self->{waits} || [] } ), splice( @{ $self->{ends} || [] } );
    return;
}

# Goes on after some seconds, or when it is woken.
sub _sleep {
    my ( $self, $seconds, $code ) = @_;
    my $woken = sub {
        delete @{$self}{qw(timer woken)};
        $code->();
    };
    $self->{woken} = $woken;
    $self->{timer} = $self->{locks}->_after( $seconds, $woken );
    return;
}

sub _wake {
    my ($self) = @_;
    my $woken = delete $self->{woken} or return;
    delete $self->{timer};
    $self->{locks}{loop}->later($woken);
    return;
}

1;
