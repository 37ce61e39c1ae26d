package Pinyon::Loop;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(refaddr weaken);

use Pinyon ();

my %loops;    # all that there are, weakly

# A client's part in an event loop. `model` makes four closures: the loop watches a descriptor, forgets it, calls before it
# waits again, and calls after some seconds. It makes them from three: the first makes a sub to call when a lane's descriptor
# is ready, the other two are to be called.
sub new {
    my ( $class, $client, $model ) = @_;
    my $self = bless { later => [] }, $class;
    weaken( my $loop = $self );
    my @closures = $model->_closures(
        sub { $loop->_when_ready( $_[0] ) },
        sub { $loop->_take_turn if $loop },
        sub { $loop->_expire    if $loop },
    );
    $self->_attach( $client, @closures, $model->_has_coroutines );
    weaken( $loops{ refaddr $self } = $self );
    return $self;
}

# What was begun last is sent, such as the release of a lock whose scope has ended. Locks without such a scope, as those in
# package variables, are released too: when Perl destroys them there is no loop any more. What makes values behind callers has
# its leases given back.
END {
    for my $loop ( grep { defined } values %loops ) {
        local $@ = undef;
        for my $lock ( $loop->_locks_left ) {
            eval { $lock->_begin_release; 1 } or next;
        }
        eval { $loop->end_behind; 1 } or next;
        $loop->_send;
    }
}

# What makes a value behind its caller, to be ended with the client.
sub keep_behind {
    my ( $self, $making ) = @_;
    weaken( $self->{behind}{ refaddr $making } = $making );
    return;
}

sub forget_behind {
    my ( $self, $making ) = @_;
    delete $self->{behind}{ refaddr $making };
    return;
}

# Gives the leases of all these back.
sub end_behind {
    my ($self) = @_;
    my $behind = delete $self->{behind} or return;
    $_->_abandon for grep { defined } values %{$behind};
    $self->_send;
    return;
}

sub DESTROY {
    my ($self) = @_;
    delete $loops{ refaddr $self };
    return;
}

# A forked child's loop of EV's must be told of the fork, or parent and child change one set of descriptors. EV can see to
# that itself, but not as Debian builds it.
sub _forked {
    EV::default_loop()->loop_fork if defined &EV::default_loop;
    return;
}

# Runs the code in the loop's next turn.
sub later {
    my ( $self, $code ) = @_;
    push @{ $self->{later} }, $code;
    $self->_announce;
    return;
}

sub _take_turn {
    my ($self)  = @_;
    my @later   = splice @{ $self->{later} };
    my $is_well = eval { $self->_turn; 1 };
    my $died    = $@;
    for my $code (@later) {
        next       if eval { $code->(); 1 };
        warn $died if !$is_well;
        ( $is_well, $died ) = ( 0, $@ );
    }
    die $died if !$is_well;
    return;
}

# Loads what a model needs, or says what is missing.
sub needs {
    my ( $model, @modules ) = @_;
    for my $module (@modules) {
        ( my $file = "$module.pm" ) =~ s{::}{/}g;
        next if eval { require $file; 1 };
        my $why = $@ =~ /\ACan't locate \Q$file\E/ ? 'which is not installed' : "which does not load: $@";
        Pinyon::Error::Unsupported->throw("$model needs $module, $why");
    }
    return;
}

# Takes cb => sub off the end of the arguments.
sub callback_of {
    my ($arguments) = @_;
    return undef    ## no critic (ProhibitExplicitReturnUndef)
        if @{$arguments} < 2 || ref $arguments->[-1] ne 'CODE' || ref $arguments->[-2] || $arguments->[-2] ne 'cb';
    my ( undef, $callback ) = splice @{$arguments}, -2;
    return $callback;
}

package Pinyon::Loop::Asking;

# What clients of caches and of locks have in common in an event loop. A model has _promise, which returns what its
# methods return, and a sub to call with value and error; and _on_cancel, if that can be cancelled.

# A new client, by its blocking class's constructor.
sub _made_in_loop {
    my ( $class, $constructor, @arguments ) = @_;
    @arguments = %{ $arguments[0] } if @arguments == 1 && ref $arguments[0] eq 'HASH';
    my $host = $class->_take_loop( \@arguments );
    return $constructor->( $class, @arguments )->_enter_loop($host);
}

sub _enter_loop {
    my ( $self, $host ) = @_;
    $self->{host} = $host;
    $self->{loop} = Pinyon::Loop->new( $self, $self );
    return $self;
}

# Starts something that calls back. With a callback of the caller's returns the operation, otherwise a promise.
sub _asked {
    my ( $self, $callback, $start ) = @_;
    return $self->_called_back( $callback, $start ) if $callback;
    my ( $promise, $told ) = $self->_promise;
    my $operation = eval { $start->($told) };
    if ( !$operation ) {
        $told->( undef, $@ );
        return $promise;
    }
    $self->_on_cancel( $promise, $operation );
    return $promise;
}

# Whatever fails is told to the callback, in the loop's next turn if nothing could be begun.
sub _called_back {
    my ( $self, $callback, $start ) = @_;
    my ( $operation, $failure );
    {
        local $@ = undef;
        return $operation if eval { $operation = $start->($callback); 1 };
        $failure = $@;
    }
    my $told = Pinyon::Loop::Refused->new($callback);
    $self->{loop}->later( sub { $told->tell($failure) } );
    return $told;
}

# Who must not wait for itself. Callbacks are nobody's: each call is one of its own.
sub _owner { return Pinyon::_new_owner() }

# Takes the host's loop off the settings, where there can be several.
sub _take_loop { return }

# Calls a maker, and calls back with its value, or that of the promise that it returns, and error.
sub _carry_out {
    my ( $self, $make, $ended ) = @_;
    my $value;
    return $ended->( undef, $@ ) if !eval { $value = $make->(); 1 };
    $self->_when( $value, $ended );
    return;
}

sub _has_coroutines { return 0 }
sub _on_cancel      { return }

# Goes on with a value, or, if it is one of the model's promises, when that has its value.
sub _when {
    my ( $self, $value, $callback ) = @_;
    return $callback->( $value, undef );
}

package Pinyon::Loop::Refused;

# What could not be begun, until its callback knows.
sub new {
    my ( $class, $callback ) = @_;
    return bless { callback => $callback }, $class;
}

sub tell {
    my ( $self, $failure ) = @_;
    my $callback = delete $self->{callback} or return;
    $callback->( undef, $failure );
    return;
}

sub cancel {
    my ($self) = @_;
    delete $self->{callback};
    return;
}

package Pinyon::Loop::Timer;

# A timer that ends when it is let go.
sub new {
    my ( $class, $timer, $end ) = @_;
    return bless { timer => $timer, end => $end }, $class;
}

sub DESTROY {
    my ($self) = @_;
    $self->{end}->( $self->{timer} ) if ${^GLOBAL_PHASE} ne 'DESTRUCT';
    return;
}

1;
