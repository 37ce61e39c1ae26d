package LockPlaying;

# Plays scenarios/locks.json: what a lock does on a real server. Every caller is a thread that does one call after another;
# calls and outcomes go between threads as JSON.

use 5.016;
use strict;
use warnings;

use threads;
use threads::shared;

use Exporter      qw(import);
use JSON::PP      ();
use Thread::Queue ();
use Time::HiRes   qw(sleep time);

use Pinyon  ();
use Servers qw(root);

our @EXPORT_OK = qw(scenarios played);

# The time limit of every step in seconds, for slow machines too.
use constant PATIENCE => 100;

my $json = JSON::PP->new->utf8->allow_nonref->canonical;

sub scenarios {
    open my $file, '<:raw', root() . '/scenarios/locks.json' or die "locks.json: $!";
    local $/ = undef;
    return $json->decode( scalar <$file> );
}

# Plays a scenario in a namespace of its own; returns what is wrong, or undef.
sub played {
    my ( $url, $namespace, $settings, $scenario ) = @_;
    my %tokens : shared;
    my $self  = bless { namespace => $namespace, tokens => \%tokens, clients => {}, callers => {}, begun => {} }, __PACKAGE__;
    my @steps = ( @{ $scenario->{steps} }, { by => 'A', call => ['left_behind'], returns => [], eventually => 1 } );
    my %settings = ( %{$settings}, %{ $scenario->{client} || {} } );
    for ( map { $_->{by} // () } @steps ) {
        $self->{clients}{ substr $_, 0, 1 } ||= Pinyon::Locks->new( $url, namespace => $namespace, %settings );
    }
    for ( map { $_->{by} // () } @steps ) {
        $self->{callers}{$_} ||= $self->_caller( $self->{clients}{ substr $_, 0, 1 } );
    }
    my $wrong = eval { $self->_step($_) for @steps; 1 } ? undef : $@;
    $_->close for values %{ $self->{clients} };
    for my $caller ( values %{ $self->{callers} } ) {
        $caller->{calls}->enqueue(undef);
        $caller->{thread}->join;
    }
    return $wrong;
}

sub _step {
    my ( $self, $step ) = @_;
    my $begun = time;
    return _check( $step, _ended( $self->{begun}{ $step->{ends} } ) ) if $step->{ends};
    if ( $step->{begins} ) {
        $self->{begun}{ $step->{begins} } = $self->_begun($step);
        return;
    }
    until ( eval { _check( $step, _ended( $self->_begun($step) ) ); 1 } ) {
        die $@ if !$step->{eventually} || time > $begun + PATIENCE;
        sleep 0.002;
    }
    _wrong( $step, 'was too quick' ) if time - $begun < ( $step->{takes} // 0 );
    return;
}

sub _begun {
    my ( $self, $step ) = @_;
    my $outcome = Thread::Queue->new;
    $self->{callers}{ $step->{by} }{calls}->enqueue( [ $json->encode( $step->{call} ), $outcome ] );
    return $outcome;
}

sub _ended {
    my ($outcome) = @_;
    my $said = $outcome->dequeue_timed(PATIENCE) // die "a call never ends\n";
    return $json->decode($said);
}

sub _check {
    my ( $step, $outcome ) = @_;
    my $shown = $json->encode($step) . ': ' . $json->encode($outcome);
    if ( !exists $outcome->{raises} ) {
        die "$shown\n" if $step->{raises};
        return         if !exists $step->{returns};
        die "$shown\n" if _plain( $outcome->{returns} ) ne _plain( $step->{returns} );
        return;
    }
    die "$shown\n" if !$step->{raises} || $outcome->{raises} ne $step->{raises};
    die "$shown\n" if $outcome->{says} !~ ( $step->{says} // q{} );
    die "$shown\n" if defined $step->{cycle} && $outcome->{cycle} != $step->{cycle};
    return;
}

sub _plain {
    my ($value) = @_;
    return ref $value eq 'ARRAY' ? $json->encode($value) : $value ? "$value" : '0';
}

sub _wrong {
    my ( $step, $why ) = @_;
    die $json->encode($step) . ": $why\n";
}

# ---- In the thread of a caller ----

sub _caller {
    my ( $self, $locks ) = @_;
    my $calls  = Thread::Queue->new;
    my $shared = { locks => $locks, tokens => $self->{tokens}, namespace => $self->{namespace} };
    my $thread = threads->create(
        sub {
            my %caller = ( %{$shared}, held => {}, losses => {} );
            while ( my $call = $calls->dequeue ) {
                my ( $name, @arguments ) = @{ $json->decode( $call->[0] ) };
                my $said;
                eval { $said = { returns => scalar _used( \%caller, $name, @arguments ) }; 1 } or $said = _raised($@);
                $call->[1]->enqueue( $json->encode($said) );
            }
            return;
        }
    );
    return { calls => $calls, thread => $thread };
}

sub _raised {
    my ($error) = @_;
    return { raises => 'no error of Pinyon', says => "$error" } if !ref $error;
    return { raises => $error->kind, says => $error->message, cycle => scalar( my @cycle = $error->cycle ) };
}

sub _used {
    my ( $caller, $name, @arguments ) = @_;
    my $locks = $caller->{locks};
    return _acquired( $caller, $name eq 'acquire' ? 'lock' : 'try_lock', @arguments ) if $name =~ /\A(?:acquire|try_lock)\z/;
    return $locks->is_locked( \@arguments )                                           if $name eq 'is_locked';
    return $locks->waiting( \@arguments )                                             if $name eq 'waiting';
    return $locks->execute( map { s/\{namespace\}/{$caller->{namespace}}/r } @arguments )           if $name eq 'execute';
    return [ grep { !/:#[fp]\z|:#x:/ } @{ $locks->execute( 'KEYS', "{$caller->{namespace}}:*" ) } ] if $name eq 'left_behind';
    if ( $name eq 'force_release' ) {
        return $locks->force_release( $arguments[0],
            token => defined $arguments[1] ? $caller->{tokens}{ $arguments[1] } : undef );
    }
    my ( $which, @others ) = @arguments;
    return $caller->{tokens}{$which} > $caller->{tokens}{ $others[0] } if $name eq 'is_later';
    if ( $name eq 'is_held_by' ) {
        my ($status) = $locks->status(@others);
        return ( $status->{token} // 0 ) == $caller->{tokens}{$which};
    }
    my $held = $caller->{held}{$which};
    if ( $name eq 'check' ) {
        $held->check;
        return;
    }
    return !$held->is_held if $name eq 'is_lost';
    if ( $name eq 'losses' ) {
        $held->remaining;
        return $caller->{losses}{$which} // 0;
    }
    if ( $name eq 'lasts' ) {
        my $left = $held->remaining;
        return $others[0] <= $left && $left <= $others[1];
    }
    return $held->notify_all if $name eq 'notify' && $others[0] == 0;
    my $done = $held->$name(@others);
    $caller->{tokens}{$_} = $caller->{held}{$_}->token for keys %{ $caller->{held} };    # others after a wait
    return $done;
}

sub _acquired {
    my ( $caller, $method, $name, $names, $settings ) = @_;
    my %options = %{ $settings || {} };
    $_ = ref $_ ? ( $_ ? 1 : 0 ) : $_ for values %options;
    my $held = $caller->{locks}->$method( $names, on_lost => sub { $caller->{losses}{$name}++ }, %options ) or return 0;
    $caller->{held}{$name}   = $held;
    $caller->{tokens}{$name} = $held->token;
    return 1;
}

1;
