package Worker;

# One thread or coroutine at its share of the work, as pinyon_verify/locks/work.py does it.

use 5.016;
use strict;
use warnings;

use JSON::PP     ();
use POSIX        ();
use Scalar::Util qw(blessed);

use Models   ();
use Recorder qw(now);

# The pause after an error from the server, in seconds.
use constant AFTER_ERROR => 0.02;

sub new {
    my ( $class, $model, $share, $locks ) = @_;
    return bless { model => $model, share => $share, locks => $locks }, $class;
}

sub work {
    my ($self) = @_;
    $self->take while $self->{share}->goes_on;
    return;
}

# Acquires one lock, however late it is.
sub take {
    my ($self) = @_;
    my ( $options, $cancel_after ) = $self->{share}->draw;
    if ( my $held = $self->_acquire( $options, $cancel_after ) ) {
        $self->_release($held) if $self->_inside($held);
    }
    $self->_ask_rate;
    $self->{model}->sleep( $self->{share}->rest );
    return;
}

sub _acquire {
    my ( $self,  $options, $cancel_after ) = @_;
    my ( $model, $share,   $held )         = @{$self}{qw(model share)};
    my $is_held = eval {
        $held = $model->acquire( sub { $self->_ask(@_) }, $options, $cancel_after );
        1;
    };
    my $error = $@;
    $share->used_ticket;
    return $held if $is_held;
    $error = _error($error);
    if ( $error->isa('Pinyon::Error::LockTimeout') ) {
        $share->record('cancel');
        return;
    }
    $self->_failed( $error, defined $cancel_after );
    $model->sleep(AFTER_ERROR);
    return;
}

# Asks for the lock, or adopts it.
sub _ask {
    my ( $self,  %options ) = @_;
    my ( $share, $locks )   = @{$self}{qw(share locks)};
    return $locks->adopt( $share->ticket->{ticket}, %options ) if $share->ticket;
    return $locks->lock( $share->wanted->written, %options );
}

# An error of Pinyon's; others are not expected.
sub _error {
    my ($error) = @_;
    die $error if !blessed $error || !$error->isa('Pinyon::Error');
    return $error;
}

sub _failed {
    my ( $self, $error, $is_cancelled ) = @_;
    my $cancelled = $is_cancelled ? JSON::PP::true() : JSON::PP::false();
    return $self->{share}->record( 'failed', error => $error->kind . ': ' . $error->message, cancelled => $cancelled );
}

# Whether it is to be released.
sub _inside {
    my ( $self, $held ) = @_;
    $self->_stay($held);
    if ( my $inner = $self->{share}->inner ) {
        Worker->new( $self->{model}, $inner, $self->{locks} )->take;
    }
    $self->_change_modes($held);
    my $timeout = $self->{share}->waits;
    return $self->_waited( $held, $timeout ) if defined $timeout;
    return !( $self->{share}->hands_over && $self->_handed_over($held) );
}

# Gives the lock other modes, perhaps several times, and stays inside each time.
sub _change_modes {
    my ( $self, $held ) = @_;
    while ( my $change = $self->{share}->changes ) {
        return if !$self->_changed( $held, $change );
        $self->_stay($held);
    }
    return;
}

sub _changed {
    my ( $self, $held, $change ) = @_;
    my $share = $self->{share};
    my $names = $change->{names};
    my $sent  = now();
    $share->begin_change($change);
    my $is_changed = eval {
        if ( $change->{upgrades} ) { $held->upgrade( $names, timeout => $change->{timeout} ) }
        else                       { $held->downgrade($names) }
        1;
    };
    if ($is_changed) {
        $share->changed( $change, $sent );
        return 1;
    }
    my $error = _error($@);
    if   ( $error->isa('Pinyon::Error::LockTimeout') ) { $share->record('cancel') }
    else                                               { $self->_failed( $error, 1 ) }
    $share->not_changed( $change, $held );
    return 0;
}

# Whether it is another's now.
sub _handed_over {
    my ( $self, $held ) = @_;
    my $sent = now();
    my $ticket;
    eval { $ticket = $held->hand_over; 1 } or _error($@);
    return 0 if !defined $ticket;
    $self->{share}->handed_over( $ticket, $sent );
    return 1;
}

sub _ask_rate {
    my ($self) = @_;
    my $share  = $self->{share};
    my $count  = $share->asks_rate or return;
    my $sent   = now();
    my $answer;
    eval { $answer = $self->{locks}->rate( 'api', $share->rate_terms )->allow($count); 1 } or _error($@);
    $share->rated( $count, $sent, $answer->{allowed} ) if $answer;
    return;
}

sub _stay {
    my ( $self, $held ) = @_;
    my $share = $self->{share};
    return $share->stay( $self->{model}, $held, sub { $self->_fork_inside($held) if $share->chance('forks') } );
}

# Notifies another holder, and waits for a notification. Whether the names are to be released.
sub _waited {
    my ( $self, $held, $timeout ) = @_;
    my $share = $self->{share};
    my $token = $held->token;
    eval { $held->notify; 1 } or _error($@);
    if ( !eval { $held->wait($timeout); 1 } ) {
        my $error = _error($@);
        if ( $error->isa('Pinyon::Error::LockTimeout') ) {
            $share->record('cancel');
            return 0;
        }
        $self->_failed( $error, 1 );
        eval { $held->release; 1 } or _error($@);
        return 0;
    }

    # With the same token it was woken before the server knew: the names were held all the time.
    if   ( $held->token == $token ) { $share->record('cancel') }
    else                            { $self->_stay($held) }
    return 1;
}

sub _release {
    my ( $self, $held ) = @_;
    my $share = $self->{share};
    $share->record('release');
    my $kept;
    if ( eval { $kept = $held->release; 1 } ) {
        return $share->record( 'released', kept => $kept ? JSON::PP::true() : JSON::PP::false() );
    }
    return $share->record( 'released', kept => undef, error => _error($@)->message );
}

# A child must not hold, renew or release its parent's locks; it waits with locks of its own.
sub _fork_inside {
    my ( $self, $held ) = @_;
    my $share = $self->{share};
    my $child = fork // die "fork: $!";
    if ( !$child ) {
        my $is_well = eval { $self->_be_child($held); 1 };
        warn $@ if !$is_well;
        POSIX::_exit( $is_well ? 0 : 1 );
    }
    my $status = $self->{model}->status_of( $child, sub { $share->believes($held) } );
    $share->violated("a forked child ended with $status") if $status;
    return;
}

sub _be_child {
    my ( $self, $held ) = @_;
    my $share = $self->{share};
    $share->after_fork;
    $share->violated("a forked child holds its parent's lock") if $held->remaining > 0 || !$held->is_lost;
    my $was_held = eval { $held->release };
    $share->violated("a forked child released its parent's lock") if $was_held;
    $self->{model} = Models::of('perl-threads');
    $self->{locks} = $self->{model}->locks( $share->{settings} );
    $self->take for 1 .. 3;
    return;
}

1;
