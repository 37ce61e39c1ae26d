package Pinyon::Loop::Lock;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Time::HiRes ();

use Pinyon::Lock ();
use Pinyon::Loop ();

our @ISA = ('Pinyon::Lock');    ## no critic (ProhibitExplicitISA)

sub release {
    my ( $self, @arguments ) = @_;
    my $locks = $self->_client;
    return $locks->_asked(
        Pinyon::Loop::callback_of( \@arguments ),
        sub {
            my ($told) = @_;
            if ( $self->_is_over ) {
                $locks->{loop}->later( sub { $told->( q{}, undef ) } );
                return Pinyon::Loop::Operations->new;
            }
            my $operation = $self->_wished(
                sub {
                    my ( $was_held, $error ) = @_;
                    $self->_note_release( defined $error, $was_held );
                    $told->( defined $error ? undef : $was_held ? 1 : q{}, $error );
                },
                $self->RELEASE,
                undef
            );
            $self->_note_release( 0, 0 );
            return $operation;
        }
    );
}

sub extend {
    my ( $self, $ttl, @arguments ) = @_;
    return $self->_truth( \@arguments, $self->EXTEND, $ttl );
}

sub hand_over {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_client->_asked(
        $callback,
        sub {
            my ($told) = @_;
            my $handed_over = sub {
                my ( $ticket, $error ) = @_;
                if ( !defined $error ) {
                    $self->_note_release( 0, 1 );
                    $self->_listen_no_more;
                }
                $told->( $ticket, $error );
            };
            return $self->_wished( $handed_over, $self->HAND_OVER, $arguments[0] );
        }
    );
}

sub upgrade {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_changed( $callback, $self->UPGRADE, @arguments );
}

sub downgrade {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_changed( $callback, $self->DOWNGRADE, @arguments );
}

sub _changed {
    my ( $self, $callback, $kind, @arguments ) = @_;
    return $self->_client->_asked(
        $callback,
        sub {
            my ($told) = @_;
            my $change = Pinyon::Lock::_change(@arguments);
            return $self->_wished( sub { $told->( defined $_[1] ? undef : $self, $_[1] ) }, $kind, $change );
        }
    );
}

sub _release_early {
    my ( $self, $told ) = @_;
    return $told->() if $self->_is_over;
    $self->_wished( sub { $told->() }, $self->RELEASE, 1 );
    $self->_note_release( 0, 1 );
    return;
}

sub wait {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_truth( [ $callback ? ( cb => $callback ) : () ], $self->PARK, $arguments[0] );
}

sub wait_for {
    my ( $self, $predicate, @arguments ) = @_;
    my $locks    = $self->_client;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    my $until    = defined $arguments[0] ? Time::HiRes::time() + $arguments[0] : undef;
    return $locks->_asked(
        $callback,
        sub {
            my ($told) = @_;
            return Pinyon::Loop::WaitingFor->new( $self, $predicate, $until, $told )->again;
        }
    );
}

sub notify {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    my $count    = $arguments[0] // 1;
    return $self->_client->_asked(
        $callback,
        sub {
            if ( $count !~ /\A[1-9]\d*\z/ ) {
                Pinyon::Error::Usage->throw("notify wakes 1 or more, not $count; notify_all wakes all");
            }
            return $self->_wished( $_[0], $self->NOTIFY, $count );
        }
    );
}

sub notify_all {
    my ( $self, @arguments ) = @_;
    return $self->_client->_asked( Pinyon::Loop::callback_of( \@arguments ),
        sub { $self->_wished( $_[0], $self->NOTIFY, 0 ) } );
}

sub _truth {
    my ( $self, $arguments, $kind, $number ) = @_;
    return $self->_client->_asked(
        Pinyon::Loop::callback_of($arguments),
        sub {
            my ($told) = @_;
            return $self->_wished( sub { $told->( defined $_[1] ? undef : $_[0] ? 1 : q{}, $_[1] ) }, $kind, $number );
        }
    );
}

sub _wished {
    my ( $self, $told, $kind, $number ) = @_;
    return $self->_client->_begin_wish( $told, $self, $kind, $number );
}

# Begins to release it at the end of the program.
sub _begin_release {
    my ($self) = @_;
    $self->_client->_begin_wish( sub { }, $self, $self->RELEASE, undef );
    $self->_note_release( 0, 1 );
    return;
}

# Released without waiting.
sub DESTROY {
    my ($self) = @_;
    return if !$self->_goes_held;
    local ( $@, $!, $? );
    my $names = join( q{ }, $self->names ) || 'permits';
    my ( $locks, $owner ) = ( $self->_client, $self->{owner} );
    my $told = sub {
        my ( undef, $error ) = @_;
        $locks->_has_released($owner);
        return if !defined $error;
        my $why = "$error" =~ s/ at \S+ line \d+\.\n\z//r;
        warn "pinyon: the lock on $names is not released yet: $why\n";
    };
    $locks->{releasing}{$owner}++;
    if ( !eval { $locks->_begin_last_release( $told, $self ); 1 } ) {
        $told->( undef, $self->_loss == $self->LOSS_RELEASED ? undef : $@ );
    }
    return;
}

package Pinyon::Loop::WaitingFor;

# Asks again after each notification, until the predicate is true or the time is up.
sub new {
    my ( $class, $lock, $predicate, $until, $told ) = @_;
    return bless { lock => $lock, predicate => $predicate, until => $until, told => $told }, $class;
}

sub again {
    my ($self) = @_;
    my $value;
    return $self->_tell( undef, $@ ) if !eval { $value = $self->{predicate}->(); 1 };
    $self->{lock}->_client->_when( $value, sub { $self->_found(@_) } );
    return $self;
}

sub _found {
    my ( $self, $found, $error ) = @_;
    return $self->_tell( $found, $error ) if defined $error || $found;
    my $left = defined $self->{until} ? $self->{until} - Time::HiRes::time() : undef;
    return $self->_tell( $found, undef ) if defined $left && $left <= 0;
    $self->{operation} = $self->{lock}->wait(
        $left,
        cb => sub {
            return $self->_tell(@_) if defined $_[1];
            $self->again;
        }
    );
    return;
}

sub _tell {
    my ( $self, $value, $error ) = @_;
    my $told = delete $self->{told} or return $self;
    delete $self->{operation};
    $told->( $value, $error );
    return $self;
}

sub cancel {
    my ($self) = @_;
    delete $self->{told};
    my $operation = delete $self->{operation};
    $operation->cancel if $operation;
    return;
}

1;
