package Pinyon::Loop::Locks;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(reftype);

use Pinyon::Loop         ();
use Pinyon::Loop::Leader ();
use Pinyon::Loop::Lock   ();
use Pinyon::Loop::Many   ();

our @ISA = qw(Pinyon::Loop::Asking Pinyon::Locks);    ## no critic (ProhibitExplicitISA)

sub new {
    my ( $class, @arguments ) = @_;
    return $class->_made_in_loop( \&Pinyon::Locks::new, @arguments );
}

sub close {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    my %options  = @arguments;
    return $self->_close_released($callback) if $options{release};
    $self->{is_closed} = 1;
    $self->{loop}->_close;
    my $closed = Pinyon::Locks::close($self);
    Pinyon::Loop::Leader::_wake_all($self);
    return $closed;
}

sub _close_released {
    my ( $self, $callback ) = @_;
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            return $self->release_all(
                cb => sub {
                    my ( undef, $error ) = @_;
                    $self->close;
                    $told->( undef, $error );
                }
            );
        }
    );
}

sub release_all {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_asked( $callback, sub { $self->_begin_release_all( $_[0], $arguments[0] ) } );
}

sub lock {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $names, @arguments ) = @_;
    return $self->_acquired( $names, \@arguments, 0 );
}

sub try_lock {
    my ( $self, $names, @arguments ) = @_;
    return $self->_acquired( $names, \@arguments, 1 );
}

sub _new_lock {
    my ( $self, $names ) = @_;
    return Pinyon::Loop::Lock->_new( $self, $names );
}

sub _acquired {
    my ( $self, $names, $arguments, $at_once ) = @_;
    my $callback = Pinyon::Loop::callback_of($arguments);
    my %options  = @{$arguments};
    Pinyon::Locks::_warn_of_void() if !defined wantarray && !$callback && !$at_once;
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            if ( $at_once && exists $options{timeout} ) {
                Pinyon::Error::Usage->throw('try_lock does not wait: leave out timeout');
            }
            my $on_lost = delete $options{on_lost};
            my $lock    = $self->_new_lock($names);
            $lock->{owner} = $options{owner} //= $self->_owner;
            return $self->_begin_lock(
                sub {
                    my ( $is_held, $error ) = @_;
                    $lock->on_lost($on_lost) if $is_held && $on_lost;
                    $told->( $is_held ? $lock : undef, $error );
                },
                $lock,
                \%options,
                $at_once
            );
        }
    );
}

sub synchronized {
    my ( $self, $names, $code, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            if ( ( reftype( $code // q{} ) // q{} ) ne 'CODE' ) {
                Pinyon::Error::Usage->throw('synchronized takes names and a reference to a sub');
            }
            my $held = sub {
                my ( $lock, $error ) = @_;
                return $told->( undef, $error ) if defined $error;
                my $over = sub { _released( $lock, $told, @_ ) };
                my $value;
                return $over->( undef, $@ ) if !eval { $value = $code->($lock); 1 };
                $self->_when( $value, $over );
            };
            return $self->lock( $names, @arguments, cb => $held );
        }
    );
}

sub once {
    my ( $self, $names, $code, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            my ( undef, $options ) = Pinyon::Locks::_once_options( $code, $names, @arguments );
            my $held = sub {
                my ( $lock, $error ) = @_;
                return $told->( undef, $error ) if defined $error || !$lock;
                my $over = sub {
                    my ( $value, $failed ) = @_;
                    return _released( $lock, $told, $value, $failed ) if !defined $failed;
                    $lock->_release_early( sub { $told->( undef, $failed ) } );
                };
                my $value;
                return $over->( undef, $@ ) if !eval { $value = $code->($lock); 1 };
                $self->_when( $value, $over );
            };
            return $self->try_lock( $names, %{$options}, cb => $held );
        }
    );
}

sub leader {
    my ( $self, $name, %options ) = @_;
    return Pinyon::Loop::Leader->_new( $self, $name, %options );
}

# A lock that nobody has any more is released: its owner, which may wait to acquire it again, goes on.
sub _has_released {
    my ( $self, $owner ) = @_;
    return if --$self->{releasing}{$owner};
    delete $self->{releasing}{$owner};
    $_->() for @{ delete $self->{wait_for_release}{$owner} || [] };
    return;
}

# The end of a block of code with a lock: value or error, unless the lock was lost inside.
sub _released {
    my ( $lock, $told, $value, $failed ) = @_;
    return $told->( $value, $failed ) if $lock->is_released;
    $lock->release(
        cb => sub {
            my ( $was_held, $error ) = @_;
            if ( !defined $failed && !defined $error && !$was_held ) {
                eval { $lock->_die_of_loss; 1 } or $error = $@;
            }
            $error = $failed if defined $failed;
            $told->( defined $error ? undef : $value, $error );
        }
    );
    return;
}

# Asks about names, and makes of what is found what the method of that name makes.
sub _about {
    my ( $self, $names, $arguments, $read ) = @_;
    return $self->_asked(
        Pinyon::Loop::callback_of($arguments),
        sub {
            my ($told) = @_;
            return $self->_begin_inspect( sub { $told->( defined $_[1] ? undef : scalar $read->( $_[0] ), $_[1] ) }, $names );
        }
    );
}

# An array of all for an array of names.
sub status {
    my ( $self, $names, @arguments ) = @_;
    return $self->_about( $names, \@arguments, sub { ref $names eq 'ARRAY' ? $_[0] : $_[0][0] } );
}

sub is_locked {
    my ( $self, $names, @arguments ) = @_;
    return $self->_about( $names, \@arguments, \&Pinyon::Locks::_any_locked );
}

sub owner {
    my ( $self, $names, @arguments ) = @_;
    return $self->_about( $names, \@arguments, \&Pinyon::Locks::_first_holder );
}

sub waiting {
    my ( $self, $names, @arguments ) = @_;
    return $self->_about( $names, \@arguments, \&Pinyon::Locks::_count_waiting );
}

sub force_release {
    my ( $self, $names, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    my %options  = @arguments;
    return $self->_asked( $callback, sub { $self->_begin_force_release( $_[0], $names, $options{token} ) } );
}

sub _rated {
    my ( $self, $rate, $terms, @arguments ) = @_;
    return $self->_asked(
        Pinyon::Loop::callback_of( \@arguments ),
        sub {
            my ($told) = @_;
            my $answered = sub { $told->( defined $_[1] ? undef : $rate->_result( $_[0] ), $_[1] ) };
            return $self->_begin_rate( $answered, $rate->name, $terms );
        }
    );
}

sub _available {
    my ( $self, $pool, $limit, @arguments ) = @_;
    return $self->_asked( Pinyon::Loop::callback_of( \@arguments ), sub { $self->_begin_available( $_[0], $pool, $limit ) } );
}

sub execute {
    my ( $self, @parts ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@parts );
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            return $self->_begin_execute(
                sub {
                    my ( $answer, $error ) = @_;
                    return $told->( undef, $answer ) if UNIVERSAL::isa( $answer, 'Pinyon::Error' );
                    $told->( $answer, $error );
                },
                \@parts
            );
        }
    );
}

1;
