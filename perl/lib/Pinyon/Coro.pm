package Pinyon::Coro;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Loop            ();
use Pinyon::Loop::Cache     ();
use Pinyon::Loop::Locks     ();
use Pinyon::Loop::Migrating ();

BEGIN {
    Pinyon::Loop::needs(qw(Pinyon::Coro Coro AnyEvent Coro::AnyEvent));
    require Pinyon::AnyEvent;
    Pinyon::Coro::_load();
}

# A coroutine of its own reads a value by Perl code, which may wait: no callback of the loop can.
sub _read_apart {
    my ($pointer) = @_;
    Coro::async_pool( \&_read_here, $pointer );
    return;
}

package Pinyon::Coro::Model;

our @ISA = ('Pinyon::AnyEvent::Model');    ## no critic (ProhibitExplicitISA)

sub _has_coroutines { return 1 }

# Starts something that calls back, and lets the coroutine wait for it. If the coroutine ends it is cancelled.
sub _asked {
    my ( $self, $callback, $start ) = @_;
    return $self->_called_back( $callback, $start ) if $callback;
    my $rouse     = Coro::rouse_cb();
    my $operation = $start->($rouse);
    my $guard     = Pinyon::Coro::Guard->new($operation);
    my ( $value, $error ) = Coro::rouse_wait($rouse);
    $guard->let_go;
    die $error if defined $error;
    return $value;
}

# A maker that its caller may leave behind runs in a coroutine of its own.
sub _carry_out {
    my ( $self, $make, $ended ) = @_;
    &Coro::async(
        sub {
            my ( $make, $ended ) = @_;
            my $value;
            return $ended->( $value, undef ) if eval { $value = $make->(); 1 };
            return $ended->( undef,  $@ );
        },
        $make,
        $ended
    );
    return;
}

# A coroutine is a caller of its own: it must not wait for itself.
sub _owner { return $Coro::current->{_pinyon_owner} ||= Pinyon::_new_owner() }

package Pinyon::Coro::Cache;

our @ISA = qw(Pinyon::Coro::Model Pinyon::Loop::Cache);    ## no critic (ProhibitExplicitISA)

for my $method ( Pinyon::Loop::Many::methods() ) {
    no strict 'refs';                                      ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, @arguments ) = @_;
        my $many = Pinyon::Loop::Many->new( $method, \@arguments );
        _wait_for_many( $self, $many );
        my ( $results, $error ) = $many->outcome;
        die $error if defined $error;
        return wantarray && $method !~ /\Aga?ts?_|\Agets?_/ ? $many->values_in_order : $results;
    };
}

sub _wait_for_many {
    my ( $self, $many ) = @_;
    local $@ = undef;
    if ( my $reading = $many->begin_reading( $self, undef ) ) {
        return if eval { $many->take_read( Pinyon::Coro::_wait($reading) ); 1 };
        die $@ if !UNIVERSAL::isa( $@, 'Pinyon::Error' );
        $many->take_read( undef, $@ );
        return;
    }
    my @operations = $many->begin_all( $self, undef );
    for my $index ( grep { $operations[$_] } 0 .. $#operations ) {
        my $value;
        next   if eval { $value = Pinyon::Coro::_wait( $operations[$index] ); $many->take( $index, $value, undef ); 1 };
        die $@ if !UNIVERSAL::isa( $@, 'Pinyon::Error' );
        $many->take( $index, undef, $@ );
    }
    return;
}

sub _new_batch {
    my ($self) = @_;
    return Pinyon::Coro::Batch->new($self);
}

# The maker runs in the coroutine that asks, unless that may leave it behind.
sub get_or_set {
    my ( $self, $key, $make, %options ) = @_;
    if ( ref $make ne 'CODE' ) {
        Pinyon::Error::Usage->throw('get_or_set takes a key and a reference to a sub that makes the value');
    }
    my $making = _making($self)->new( $self, $key, %options );
    $making->{beside} = $make;
    return $making->value($make);
}

sub iter_multi { goto &Pinyon::Cache::iter_multi }

sub get_or_set_multi {
    my ( $self, $keys, $make, %options ) = @_;
    my $class = Pinyon::Coro::_loads_by_perl($self) ? 'Pinyon::Coro::MakingMany' : 'Pinyon::Loop::MakingMany';
    return $class->new( $self, $keys, $make, %options )->values_by_key;
}

sub _refreshed {
    my ( $self, $key, $make, %options ) = @_;
    return _making($self)->anew( $self, $key, %options )->value($make);
}

# The class of a caller of get_or_set.
sub _making {
    my ($self) = @_;
    return Pinyon::Coro::_loads_by_perl($self) ? 'Pinyon::Coro::Making' : 'Pinyon::Loop::Making';
}

# Each step is taken in a coroutine, because the last one reads a value by Perl code.
package Pinyon::Coro::Making;

our @ISA = ('Pinyon::Loop::Making');    ## no critic (ProhibitExplicitISA)

sub _go_on {
    my ($self) = @_;
    Coro::async_pool( sub { $self->Pinyon::Loop::Making::_go_on if $self->{told} } );
    return;
}

package Pinyon::Coro::MakingMany;

use mro 'c3';

our @ISA = ( 'Pinyon::Coro::Making', 'Pinyon::Loop::MakingMany' );    ## no critic (ProhibitExplicitISA)

package Pinyon::Coro::Batch;

our @ISA = ('Pinyon::Loop::Batch');                                   ## no critic (ProhibitExplicitISA)

# Waits for the commands before, when many are under way. `finish` tells what failed.
sub _add {
    my ( $self, @command ) = @_;
    $self->Pinyon::Loop::Batch::_add(@command);
    Pinyon::Coro::_wait( $self->_begin_finish( $self->{client}, undef, 0 ) ) if $self->_is_full;
    return;
}

package Pinyon::Coro::MigratingCache;

our @ISA = qw(Pinyon::Loop::Migrating Pinyon::Coro::Cache Pinyon::MigratingCache);    ## no critic (ProhibitExplicitISA)

package Pinyon::Coro::Locks;

our @ISA = qw(Pinyon::Coro::Model Pinyon::Loop::Locks);                               ## no critic (ProhibitExplicitISA)

# These are the methods of clients that wait, over what waits here.
BEGIN {
    no strict 'refs';                                                                 ## no critic (ProhibitNoStrict)
    *{$_} = Pinyon::Locks->can($_)
        for qw(synchronized once status is_locked owner waiting force_release release_all execute _rated);
}

sub lock {
    my ( $self, $names, %options ) = @_;
    return $self->_acquired( $names, \%options, 0 );
}

sub try_lock {
    my ( $self, $names, %options ) = @_;
    Pinyon::Error::Usage->throw('try_lock does not wait: leave out timeout') if exists $options{timeout};
    return $self->_acquired( $names, \%options, 1 );
}

sub _acquired {
    my ( $self, $names, $options, $at_once ) = @_;
    my $owner = $options->{owner} // $self->_owner;
    if ( $self->{releasing}{$owner} ) {
        my $rouse = Coro::rouse_cb();
        push @{ $self->{wait_for_release}{$owner} }, $rouse;
        Coro::rouse_wait($rouse);
    }
    $self->_take_notes;
    my $on_lost = delete $options->{on_lost};
    my $lock    = Pinyon::Coro::Lock->_new( $self, $names );
    $lock->{owner} = $options->{owner} = $owner;
    Pinyon::Coro::_wait( $self->_begin_lock( undef, $lock, $options, $at_once ) ) or return;
    $lock->on_lost($on_lost)       if $on_lost;
    Pinyon::Locks::_warn_of_void() if !defined wantarray && !$at_once;
    return $lock;
}

sub close {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, %options ) = @_;
    $self->release_all if $options{release};
    return Pinyon::Loop::Locks::close($self);
}

sub _inspect       { my ( $self, @wish ) = @_; return Pinyon::Coro::_wait( $self->_begin_inspect( undef, @wish ) ) }
sub _available     { my ( $self, @wish ) = @_; return Pinyon::Coro::_wait( $self->_begin_available( undef, @wish ) ) }
sub _execute       { my ( $self, @wish ) = @_; return Pinyon::Coro::_wait( $self->_begin_execute( undef, @wish ) ) }
sub _ask_rate      { my ( $self, @wish ) = @_; return Pinyon::Coro::_wait( $self->_begin_rate( undef, @wish ) ) }
sub _release_all   { my ( $self, @wish ) = @_; return Pinyon::Coro::_wait( $self->_begin_release_all( undef, @wish ) ) }
sub _force_release { my ( $self, @wish ) = @_; return Pinyon::Coro::_wait( $self->_begin_force_release( undef, @wish ) ) }

package Pinyon::Coro::Lock;

our @ISA = ('Pinyon::Lock');    ## no critic (ProhibitExplicitISA)

sub _wish {
    my ( $self, $locks, @wish ) = @_;
    return Pinyon::Coro::_wait( $locks->_begin_wish( undef, $self, @wish ) );
}

sub release {
    my ($self) = @_;
    return q{} if $self->_is_over;
    my $locks = $self->_client;
    $locks->_take_notes;
    my $was_held = $self->_wish( $locks, $self->RELEASE, undef );
    $self->_note_release( 0, $was_held );
    return $was_held ? 1 : q{};
}

sub _ends {
    my ($self) = @_;
    $self->is_released || $self->release || $self->_die_of_loss;
    return;
}

sub _begin_release { goto &Pinyon::Loop::Lock::_begin_release }
sub DESTROY        { goto &Pinyon::Loop::Lock::DESTROY }

package Pinyon::Coro::Guard;

sub new {
    my ( $class, $operation ) = @_;
    return bless { operation => $operation }, $class;
}

sub let_go {
    my ($self) = @_;
    delete $self->{operation};
    return;
}

sub DESTROY {
    my ($self) = @_;
    $self->{operation}->cancel if $self->{operation};
    return;
}

1;

__END__

=encoding utf8

=head1 NAME

Pinyon::Coro - caches and locks for coroutines of Coro

=head1 SYNOPSIS

    use EV;
    use Coro;
    use Pinyon::Coro;

    my $cache = Pinyon::Coro::Cache->new(servers => '127.0.0.1:11211');
    my $locks = Pinyon::Coro::Locks->new('redis://127.0.0.1:6379/0');
    my @all   = map {
        my $key = "user:$_";
        async {
            my $lock = $locks->lock('table', timeout => 10);
            $cache->set($key => 'Ada');
            return $cache->get($key);
        };
    } 1 .. 100;
    say scalar grep { $_->join eq 'Ada' } @all;    # 100

=head1 DESCRIPTION

C<Pinyon::Coro::Cache> and C<Pinyon::Coro::Locks> have the constructors and methods of L<Pinyon::Cache> and L<Pinyon::Locks>.
Where those block the program, only the coroutine waits. All coroutines share one connection to each server, and their concurrent
commands leave in one system call. Coroutines resume one after the other, because a L<Coro::Semaphore> is slow if many become ready
at once.

If a coroutine is cancelled, or receives an exception by C<throw>, it abandons its operation. If that acquires a lock nevertheless,
Pinyon releases it. Each coroutine is the owner of its locks. At the end of a lock's scope, Pinyon releases the lock without
waiting.

With C<soft_timeout> or C<< refresh => 'behind' >>, C<get_or_set> calls its sub in a coroutine of its own if there is an old value,
which the caller may get while that goes on. If the caller ends before, the sub runs to its end and its value is dropped.
C<close>, and the end of the program, give the lease back.

With Coro 6.57 on perl 5.36, do not cancel a coroutine that waits inside several subs: Coro then reads the wrong variables and
crashes, whatever the coroutine waits for. Coro also keeps what the closure of a cancelled coroutine has captured, such as a client,
which Perl then never frees. Pass clients as arguments of C<Coro::async>. C<throw> is safe.

This module needs version 7 of Coro's C interface, and refuses others when you load it.

=head1 ERRORS

Methods die with errors of L<Pinyon::Error>, with the file and line of the call. If Coro or AnyEvent is not installed, loading this
module dies with L<Pinyon::Error::Unsupported|Pinyon::Error>.
