package Share;

# What one worker draws and records, as pinyon_verify/locks/share.py does.

use 5.016;
use strict;
use warnings;

use JSON::PP   ();
use List::Util qw(max min);

use Changing ();
use Drawing  ();
use Recorder qw(ending now nanoseconds);
use Register ();
use Tickets  ();
use Wanted   ();

our @ISA = qw(Changing Drawing);    ## no critic (ProhibitExplicitISA)

# How often a holder checks that it still holds the lock, and how early it leaves, in seconds.
use constant { SLICE => 0.01, MARGIN => 0.005 };

# The first number of workers inside others' locks.
use constant INNER => 1000;

# A sleep is recorded if it took so much longer than requested, in seconds.
use constant LATE => 0.005;

# How much more often a worker looks for a ticket than it leaves one.
use constant FINDS => 5;

sub new {
    my ( $class, $settings, $recorder, $number, %more ) = @_;
    my $self = bless {
        settings => $settings,
        recorder => $recorder,
        number   => $number,
        attempts => 0,
        outer    => [],
        %more,
    }, $class;
    $self->{register} = Register->new( $settings->{register} );
    $self->{tickets}  = Tickets->new( $settings->{folder} );
    $self->{process}  = $$;
    $self->begin_drawing($number);
    return $self;
}

sub wanted { return $_[0]{wanted} }

# What the attempt adopts, if it does.
sub ticket { return $_[0]{ticket} }

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
    my $random   = sub { $self->random(@_) };
    my %options =
        ( timeout => $self->chance('tries') ? 0 : $settings->{patience}, renew => $self->chance('unrenewed') ? 0 : 1 );
    $self->{ticket} = $self->random < FINDS * $settings->{hand_overs} ? $self->{tickets}->find($random) : undef;
    if ( my $ticket = $self->{ticket} ) {
        $self->{wanted} = Wanted->new( names => $ticket->{names} );
        $self->begin_attempt( source => $ticket->{attempt} );
        return ( { %options, timeout => $settings->{patience} }, $self->_cancel_after );
    }
    my %is_outer = map  { $_ => 1 } @{ $self->{outer} };
    my @others   = grep { !$is_outer{$_} } map { "n$_" } 0 .. $settings->{names} - 1;
    $self->{wanted} = Wanted->draw( $settings, $random, \@others, "m$self->{process}.$self->{number}" );
    $self->begin_attempt;
    return ( { %options, $self->{wanted}->options( $settings->{limit} ) }, $self->_cancel_after );
}

# Whether to hand the lock over now, instead of releasing it.
sub hands_over {
    my ($self) = @_;
    return $self->{wanted}->may_be_handed_over && $self->chance('hand_overs');
}

# Leaves the ticket to others. If nobody uses it in time, the lock ends by its ttl.
sub handed_over {
    my ( $self, $text, $sent ) = @_;
    $self->record( 'handed', sent => $sent, until => now() + nanoseconds( $self->{settings}{ttl} ) );
    $self->{tickets}->leave( ticket => $text, names => $self->{wanted}->names, attempt => $self->{attempt} );
    return;
}

sub used_ticket {
    my ($self) = @_;
    $self->{tickets}->remove( $self->{ticket} ) if $self->{ticket};
    return;
}

# How many permits of a rate to ask for now, if any.
sub asks_rate {
    my ($self) = @_;
    return $self->chance('rates') ? 1 + int $self->random(3) : 0;
}

sub rate_terms {
    my ($self) = @_;
    return map { $_ => $self->{settings}{"rate_$_"} } qw(limit per burst);
}

sub rated {
    my ( $self, $count, $sent, $is_allowed ) = @_;
    my $allowed = $is_allowed ? JSON::PP::true() : JSON::PP::false();
    return $self->record( 'rated', count => $count, sent => $sent, allowed => $allowed, $self->rate_terms );
}

sub _cancel_after {
    my ($self) = @_;
    return                                 if !$self->chance('cancels');
    return -( 1 + $self->{attempts} % 25 ) if $self->{settings}{stepwise};
    return max( $self->random( $self->{settings}{cancel_within} ), 0.0005 );
}

sub begin_attempt {
    my ( $self, %facts ) = @_;
    $self->{attempts}++;
    $self->{attempt} = "$self->{process}.$self->{number}.$self->{attempts}";
    return $self->record( 'invoke', $self->{wanted}->facts, %facts );
}

# Now and then, the share of a worker that takes other names while these are held.
sub inner {
    my ($self) = @_;
    return if @{ $self->{outer} } || !$self->chance('nested');
    $self->{inner} ||= Share->new( $self->{settings}, $self->{recorder}, $self->{number} + INNER );
    $self->{inner}{outer} = $self->{wanted}->names;
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
    my $settings = $self->{settings};
    my @names    = @{ $self->{wanted}->names };
    $self->_use( $held, $names[0] ) if @names;
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
    $self->_use( $held, $names[-1] ) if @names;
    $self->believes($held);
    return;
}

# Writes to the register of a name to write, and reads that of another.
sub _use {
    my ( $self, $held, $name ) = @_;
    my $reads = $self->{wanted}->reads($name);
    my $token = $held->token;
    my %facts = ( name => $name, token => $token + 0, sent => now() );
    if ($reads) {
        my ( $newest, $order ) = $self->{register}->read( $name, $token );
        return $self->record( 'read', %facts, newest => $newest, order => $order );
    }
    my ( $accepted, $order ) = $self->{register}->write( $name, $token );
    $accepted = $accepted ? JSON::PP::true() : JSON::PP::false();
    return $self->record( 'write', %facts, accepted => $accepted, order => $order );
}

1;
