package Candidacy;

# What one worker's candidate draws and records, as pinyon_verify/locks/candidate.py does.

use 5.016;
use strict;
use warnings;

use JSON::PP ();

use Drawing  ();
use Recorder qw(ending now nanoseconds);
use Register ();

# How often a worker looks whether its candidate leads, and how long its on_lost takes, in seconds.
use constant { LOOK => 0.01, LOSING => 0.002 };

# How often a leader writes to the register when it looks.
use constant USES => 0.3;

# How much longer than a lock's waiter a candidate waits before it gives up.
use constant PATIENT => 20;

our @ISA = ('Drawing');    ## no critic (ProhibitExplicitISA)

sub new {
    my ( $class, $settings, $recorder, $number, $model ) = @_;
    my $self = bless {
        settings  => $settings,
        recorder  => $recorder,
        model     => $model,
        name      => 'n' . $number % $settings->{names},
        candidate => "$$.$number",
        led       => {},
        attempts  => 0,
    }, $class;
    $self->begin_drawing($number);
    $self->{register} = Register->new( $settings->{register} );
    return $self;
}

sub name { return $_[0]{name} }

sub goes_on { return now() < ending( $_[0]{settings}{folder} ) }

# Before the candidate is started.
sub begins {
    my ($self) = @_;
    $self->{is_ending} = 0;
    return $self->_ask;
}

# The callback on_elected.
sub elected {
    my ( $self, $token ) = @_;
    my $since = now();
    $self->_ask if $self->{is_paused};
    $self->{is_asking}   = 0;
    $self->{led}{$token} = $self->{attempt};
    $self->{resigns_at}  = $since + nanoseconds( $self->_stay );
    $self->_record( 'granted', $self->{attempt}, token => $token + 0, until => $since );
    return $self->_called( 'elected', $self->{attempt}, $token, $since );
}

# The callback on_lost.
sub lost {
    my ( $self, $token ) = @_;
    my $since   = now();
    my $attempt = $self->{led}{$token};
    $self->_record( 'lost', $attempt, at => $since );
    $self->{model}->sleep(LOSING);
    $self->_called( 'lost', $attempt, $token, $since );
    $self->_ask if !$self->{is_ending};
    return;
}

# Records whether the candidate leads, and does what is due.
sub look {
    my ( $self, $leader ) = @_;
    my $sent     = now();
    my $token    = $leader->token;
    my $answered = now();
    return $self->_follow( $leader->state ) if !defined $token;
    my %who = ( name => $self->{name}, candidate => $self->{candidate} );
    $self->_record( 'leads', q{}, at => $sent, token => $token + 0, answered => $answered, %who );
    my $attempt = $self->{led}{$token} or return;
    return $self->_lead( $leader, $attempt, $token );
}

# Whether the candidate is to end, and to begin anew, as it was not elected.
sub gives_up {
    my ($self) = @_;
    return $self->{is_asking} && now() > $self->{gives_up_at};
}

# For how many seconds it does not give up.
sub patience {
    my ($self) = @_;
    return ( $self->{gives_up_at} - now() ) / Recorder::SECOND;
}

# Before the candidate is stopped.
sub ends {
    my ($self) = @_;
    $self->{is_ending} = 1;
    return;
}

# When it has stopped.
sub ended {
    my ($self) = @_;
    $self->_record( 'cancel', $self->{attempt} ) if $self->{is_asking};
    $self->{is_asking} = $self->{is_paused} = 0;
    return;
}

sub _record {
    my ( $self, @line ) = @_;
    return $self->{recorder}->record(@line);
}

sub _ask {
    my ($self) = @_;
    my $settings = $self->{settings};
    $self->{attempts}++;
    $self->{attempt} = "$self->{candidate}.$self->{attempts}";
    my $waits = $self->chance('cancels') ? $self->random( PATIENT * $settings->{cancel_within} ) : $settings->{patience};
    $self->{gives_up_at} = now() + nanoseconds($waits);
    $self->{is_asking}   = 1;
    $self->{is_paused}   = 0;
    return $self->_record( 'invoke', $self->{attempt}, names => [ $self->{name} ] );
}

sub _stay {
    my ($self) = @_;
    my $settings = $self->{settings};
    return $settings->{ttl} * ( 0.5 + $self->random ) if $self->chance('long_stays');
    return $self->random( $settings->{stay} );
}

sub _called {
    my ( $self, $what, $attempt, $token, $since ) = @_;
    my %call = ( what => $what, token => $token + 0, since => $since, candidate => $self->{candidate} );
    return $self->_record( 'called', $attempt, %call );
}

# Notes that the candidate pauses after a failure, or asks again.
sub _follow {
    my ( $self, $state ) = @_;
    if ( $state eq 'paused' && $self->{is_asking} ) {
        @{$self}{qw(is_asking is_paused)} = ( 0, 1 );
        $self->_record( 'failed', $self->{attempt}, error => 'it pauses', cancelled => JSON::PP::true() );
    }
    elsif ( $state eq 'candidate' && $self->{is_paused} ) {
        $self->_ask;
    }
    return;
}

sub _lead {
    my ( $self, $leader, $attempt, $token ) = @_;
    $self->_use( $attempt, $token ) if $self->random < USES;
    return                          if now() < $self->{resigns_at};
    $self->_record( 'release',  $attempt );
    $self->_record( 'resigned', $attempt ) if $leader->resign;
    return;
}

sub _use {
    my ( $self, $attempt, $token ) = @_;
    my $sent = now();
    my ( $accepted, $order ) = $self->{register}->write( $self->{name}, $token );
    $accepted = $accepted ? JSON::PP::true() : JSON::PP::false();
    my %write = ( name => $self->{name}, token => $token + 0, sent => $sent, accepted => $accepted, order => $order );
    return $self->_record( 'write', $attempt, %write );
}

1;
