package LockPlaying;

# Plays scenarios/locks.json: what a lock does on a real server. Every caller is a thread that does one call after another;
# calls and outcomes go between threads as JSON.

use 5.016;
use strict;
use warnings;

use Exporter    qw(import);
use JSON::PP    ();
use Time::HiRes qw(time);

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
    my ( $model, $url, $namespace, $settings, $scenario ) = @_;
    my $self = bless {
        model     => $model,
        namespace => $namespace,
        tokens    => $model->shared_hash,
        clients   => {},
        callers   => {},
        begun     => {}
        },
        __PACKAGE__;
    my @steps    = ( @{ $scenario->{steps} }, { by => 'A', call => ['left_behind'], returns => [], eventually => 1 } );
    my %settings = ( %{$settings}, %{ $scenario->{client} || {} } );
    for ( map { $_->{by} // () } @steps ) {
        $self->{clients}{ substr $_, 0, 1 } ||= $model->locks( $url, namespace => $namespace, %settings );
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
        $self->{model}->pause(0.002);
    }
    _wrong( $step, 'was too quick' ) if time - $begun < ( $step->{takes} // 0 );
    return;
}

sub _begun {
    my ( $self, $step ) = @_;
    my $outcome = $self->{model}->queue;
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
    my ( $self,  $locks ) = @_;
    my ( $model, $owner ) = ( $self->{model}, Pinyon::_new_owner() );
    my $calls = $model->queue;
    my $shared =
        { model => $model, owner => $owner, locks => $locks, tokens => $self->{tokens}, namespace => $self->{namespace} };
    my $thread = $model->start(
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
    my ( $locks, $model ) = @{$caller}{qw(locks model)};
    return _acquired( $caller, $name eq 'acquire' ? 'lock' : 'try_lock', @arguments ) if $name =~ /\A(?:acquire|try_lock)\z/;
    return _adopted( $caller, @arguments )                                            if $name eq 'adopt';
    return $locks->close                                                              if $name eq 'close';
    return $model->got( scalar $locks->release_all )                                  if $name eq 'release_all';
    return $model->got( scalar $locks->is_locked( \@arguments ) )                     if $name eq 'is_locked';
    return $model->got( scalar $locks->waiting( \@arguments ) )                       if $name eq 'waiting';
    return _owners( scalar $model->got( scalar $locks->status( $arguments[0] ) ) )    if $name eq 'owners';
    return $model->got( scalar $locks->execute( map { s/\{namespace\}/{$caller->{namespace}}/r } @arguments ) )
        if $name eq 'execute';
    return [ grep { !/:#[fp]\z|:#x:/ } @{ $model->got( scalar $locks->execute( 'KEYS', "{$caller->{namespace}}:*" ) ) } ]
        if $name eq 'left_behind';

    if ( $name eq 'allow' || $name eq 'wait_for_permits' ) {
        my ( $of, $settings, $count, $timeout ) = @arguments;
        my $rate = $locks->rate( $of, %{$settings} );
        my @told = $name eq 'allow' ? $rate->allow( $count // 1 ) : $rate->wait( $count, timeout => $timeout );
        return $model->got( $told[0] ) ? JSON::PP::true() : JSON::PP::false();
    }
    if ( $name eq 'force_release' ) {
        my $token = defined $arguments[1] ? $caller->{tokens}{ $arguments[1] } : undef;
        return $model->got( scalar $locks->force_release( $arguments[0], token => $token ) );
    }
    my ( $which, @others ) = @arguments;
    return $caller->{tokens}{$which} > $caller->{tokens}{ $others[0] } if $name eq 'is_later';
    if ( $name eq 'is_held_by' ) {
        my $status = $model->got( scalar $locks->status(@others) );
        return ( $status->{token} // 0 ) == $caller->{tokens}{$which};
    }
    my $held = $caller->{held}{$which};
    if ( $name eq 'hand_over' ) {
        $caller->{tokens}{"ticket $others[0]"} = $model->got( scalar $held->hand_over );
        return 1;
    }
    if ( $name eq 'upgrade' || $name eq 'downgrade' ) {
        my ( $names, $timeout ) = @others;
        $model->got( scalar $held->$name( $names, defined $timeout ? ( timeout => $timeout ) : () ) );
        $caller->{tokens}{$which} = $held->token;
        return JSON::PP::true();
    }
    if ( $name eq 'check' ) {
        $held->check;
        return;
    }
    return !$held->is_held   if $name eq 'is_lost';
    return $held->is_certain if $name eq 'is_certain';
    if ( $name eq 'losses' ) {
        $held->remaining;
        return $caller->{losses}{$which} // 0;
    }
    if ( $name eq 'lasts' ) {
        my $left = $held->remaining;
        return $others[0] <= $left && $left <= $others[1];
    }
    return $model->got( scalar $held->notify_all ) if $name eq 'notify' && $others[0] == 0;
    my $done = $model->got( scalar $held->$name(@others) );
    $caller->{tokens}{$_} = $caller->{held}{$_}->token for keys %{ $caller->{held} };    # others after a wait
    return $done;
}

sub _owners {
    my ($status) = @_;
    my @holders = @{ $status->{readers} };
    @holders = grep { defined } $status->{holder} if !@holders;
    return [ map { [ @{ $status->{owners}{$_} }{qw(label note)} ] } @holders, @{ $status->{waiting} } ];
}

sub _acquired {
    my ( $caller, $method, $name, $names, $settings ) = @_;
    my %options = %{ $settings || {} };
    $_ = JSON::PP::is_bool($_) ? ( $_ ? 1 : 0 ) : $_ for values %options;
    my $held = $caller->{model}->got(
        scalar $caller->{locks}->$method(
            $names,
            on_lost => sub { $caller->{losses}{$name}++ },
            %options, $caller->{model}->owns( $caller->{owner} )
        )
    ) or return 0;
    $caller->{held}{$name}   = $held;
    $caller->{tokens}{$name} = $held->token;
    return 1;
}

sub _adopted {
    my ( $caller, $name, $ticket, $settings ) = @_;
    my $held = $caller->{model}->got(
        scalar $caller->{locks}->adopt(
            $caller->{tokens}{"ticket $ticket"},
            on_lost => sub { $caller->{losses}{$name}++ },
            %{ $settings || {} }, $caller->{model}->owns( $caller->{owner} )
        )
    );
    $caller->{held}{$name}   = $held;
    $caller->{tokens}{$name} = $held->token;
    return 1;
}

# ---- Models: where callers are, and what waits ----

package LockPlaying::Threads;

sub new { return bless {}, shift }

sub missing {
    return 'threads' if !eval { require threads; require threads::shared; require Thread::Queue; 1 };
    return;
}
sub shared_hash { return threads::shared::shared_clone( {} ) }
sub queue       { return Thread::Queue->new }
sub start       { my ( $self, $code ) = @_; return threads->create($code) }
sub pause       { my ( $self, $seconds ) = @_; return Time::HiRes::sleep($seconds) }
sub locks       { my ( $self, @settings ) = @_; return Pinyon::Locks->new(@settings) }
sub got         { return $_[1] }
sub owns        { return }

# Callers are coroutines, in all event loops; `way` is one of Ways.
package LockPlaying::Coroutines;

sub new { my ( $class, $way, $owns ) = @_; return bless { way => $way, owns => $owns }, $class }

sub missing     { my ($self) = @_; return $self->{way}->missing }
sub shared_hash { return {} }
sub queue       { my ($self) = @_; return bless { channel => Coro::Channel->new, way => $self->{way} }, 'LockPlaying::Channel' }
sub start       { my ( $self, $code )     = @_; return Coro::async($code) }
sub pause       { my ( $self, $seconds )  = @_; return $self->{way}->pause($seconds) }
sub locks       { my ( $self, @settings ) = @_; return $self->{way}->locks(@settings) }
sub got         { my ( $self, $value )    = @_; return $self->{way}->got($value) }
sub owns        { my ( $self, $owner )    = @_; return $self->{owns} ? ( owner => $owner ) : () }

package LockPlaying::Channel;

sub enqueue { my ( $self, $item ) = @_; return $self->{channel}->put($item) }
sub dequeue { my ($self) = @_; return $self->{channel}->get }

sub dequeue_timed {
    my ( $self, $seconds ) = @_;
    my $until = Time::HiRes::time() + $seconds;
    $self->{way}->pause(0.002) while !$self->{channel}->size && Time::HiRes::time() < $until;
    return $self->{channel}->size ? $self->{channel}->get : undef;
}

1;
