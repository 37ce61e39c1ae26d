package Share;

# What one worker draws and records, as pinyon_verify/locks/share.py does.

use 5.016;
use strict;
use warnings;

use JSON::PP   ();
use List::Util qw(max min);

use Recorder qw(ending now nanoseconds);
use Register ();

# How often a holder checks that it still holds the lock, and how early it leaves, in seconds.
use constant { SLICE => 0.01, MARGIN => 0.005 };

# The first number of workers inside others' locks.
use constant INNER => 1000;

# A sleep is recorded if it took so much longer than requested, in seconds.
use constant LATE => 0.005;

sub new {
    my ( $class, $settings, $recorder, $number, %more ) = @_;
    my $self = bless {
        settings => $settings,
        recorder => $recorder,
        number   => $number,
        drawn    => ( $settings->{seed} * 100_003 + $number * 7919 + 1 ) % 0x8000_0000,
        attempts => 0,
        outer    => [],
        %more,
    }, $class;
    $self->{register} = Register->new( $settings->{register} );
    $self->{process}  = $$;
    $self->random for 1 .. 10;
    return $self;
}

sub names { return $_[0]{names} }

# A number below `below`, or 1. Coroutines share Perl's own generator; so each worker has one.
sub random {
    my ( $self, $below ) = @_;
    $self->{drawn} = ( $self->{drawn} * 1_103_515_245 + 12_345 ) % 0x8000_0000;
    return $self->{drawn} / 0x8000_0000 * ( $below // 1 );
}

# Whether what happens so often is to happen now.
sub chance {
    my ( $self, $setting ) = @_;
    return $self->random < $self->{settings}{$setting};
}

sub goes_on { return now() < ending( $_[0]{settings}{folder} ) }

sub record {
    my ( $self, $event, %facts ) = @_;
    return $self->{recorder}->record( $event, $self->{attempt}, %facts );
}

sub violated {
    my ( $self, $text ) = @_;
    return $self->record( 'violation', text => $text );
}

# Chooses the names and the kind of the next attempt. Returns the options for `lock`, and after how many seconds, or
# turns if negative, to cancel it.
sub draw {
    my ($self)   = @_;
    my $settings = $self->{settings};
    my %is_outer = map  { $_ => 1 } @{ $self->{outer} };
    my @others   = grep { !$is_outer{$_} } map { "n$_" } 0 .. $settings->{names} - 1;
    my $most     = min( $settings->{most}, scalar @others );
    my $count    = $settings->{fewest} + int $self->random( $most - $settings->{fewest} + 1 );
    my @names    = map { splice @others, int $self->random( scalar @others ), 1 } 1 .. $count;
    $self->{names} = [ sort @names ];
    my %options =
        ( timeout => $self->chance('tries') ? 0 : $settings->{patience}, renew => $self->chance('unrenewed') ? 0 : 1 );
    $self->begin_attempt;
    return ( \%options, $self->_cancel_after );
}

sub _cancel_after {
    my ($self) = @_;
    return                                 if !$self->chance('cancels');
    return -( 1 + $self->{attempts} % 25 ) if $self->{settings}{stepwise};
    return max( $self->random( $self->{settings}{cancel_within} ), 0.0005 );
}

sub begin_attempt {
    my ($self) = @_;
    $self->{attempts}++;
    $self->{attempt} = "$self->{process}.$self->{number}.$self->{attempts}";
    return $self->record( 'invoke', names => $self->{names} );
}

# Now and then, the share of a worker that takes other names while these are held.
sub inner {
    my ($self) = @_;
    return if @{ $self->{outer} } || !$self->chance('nested');
    $self->{inner} ||= Share->new( $self->{settings}, $self->{recorder}, $self->{number} + INNER );
    $self->{inner}{outer} = $self->{names};
    return $self->{inner};
}

# Now and then, for how many seconds to wait on a condition. The names are free meanwhile.
sub waits {
    my ($self) = @_;
    return if !$self->chance('conditions');
    $self->record('release');
    $self->record( 'released', kept => undef );
    $self->begin_attempt;
    return $self->random(0.05);
}

# In a forked child, which is another process's worker. It works less, and does not fork.
sub after_fork {
    my ($self) = @_;
    $self->{recorder}->begin_anew;
    $self->{process}  = $$;
    $self->{register} = Register->new( $self->{settings}{register} );
    $self->{settings} = { %{ $self->{settings} }, forks => 0, cancels => 1, patience => 0.3, long_stays => 0, stepwise => 0 };
    $self->{attempt}  = q{};
    return;
}

# Stays in the critical section, and calls something after each pause.
sub stay {
    my ( $self, $model, $held, $meanwhile ) = @_;
    my $at = now();
    $self->record( 'granted', token => $held->token, until => $at + nanoseconds( $held->remaining ) );
    my $reliable = $self->believes($held);
    return if !defined $reliable;
    $self->record('begin');
    eval { $self->_stay_inside( $model, $held, $reliable, $meanwhile ); 1 } or do {
        my $error = $@;
        $self->record('end');
        die $error;
    };
    return $self->record('end');
}

# For how many seconds the client may rely on the lock; undef if it may not.
sub believes {
    my ( $self, $held ) = @_;
    my $at        = now();
    my $remaining = $held->remaining;
    if ( $remaining <= 0 ) {
        $self->record('lost');
        return;
    }
    $self->record( 'believes', until => $at + nanoseconds($remaining) );
    return max( $remaining - MARGIN, 0 );
}

sub rest { return $_[0]->random( $_[0]{settings}{rest} ) }

sub _stay_inside {
    my ( $self, $model, $held, $reliable, $meanwhile ) = @_;
    my ( $names, $settings ) = @{$self}{qw(names settings)};
    $self->_write( $held, $names->[0] );
    my $left = $self->chance('long_stays') ? $settings->{ttl} * ( 0.5 + $self->random ) : $self->random( $settings->{stay} );
    while ( $left > 0 ) {
        my $pause = min( $left, SLICE, $reliable );
        my $due   = now() + nanoseconds($pause);
        $model->sleep($pause);
        $meanwhile->();
        $self->record( 'late', at => $due ) if now() - $due > nanoseconds(LATE);
        $left -= SLICE;
        $reliable = $self->believes($held);
        return if !defined $reliable;
    }
    $self->_write( $held, $names->[-1] );
    $self->believes($held);
    return;
}

sub _write {
    my ( $self, $held, $name ) = @_;
    my $sent  = now();
    my $token = $held->token;
    my ( $accepted, $order ) = $self->{register}->write( $name, $token );
    return $self->record(
        'write',
        name     => $name,
        token    => $token + 0,
        sent     => $sent,
        accepted => $accepted ? JSON::PP::true() : JSON::PP::false(),
        order    => $order
    );
}

1;
