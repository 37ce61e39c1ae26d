package Pinyon::Loop::Making;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Making ();

our @ISA = ('Pinyon::Making');    ## no critic (ProhibitExplicitISA)

# Kinds of steps, as in pinyon.h.
use constant { ASK => 0, PAUSE => 1, FOLLOW => 2, MAKE => 3, OVER => 4 };

sub _begin {
    my ( $self, $client, @arguments ) = @_;
    $self->{scope} = $client->{loop}->_scope;
    $self->{place} = [ Pinyon::Error::_users_place() ];
    return $self->Pinyon::Making::_begin( $client, @arguments, $self->{scope}, $client->_owner );
}

# Goes all the way, and calls back with value and error. What is returned can be cancelled.
sub begin {
    my ( $self, $make, $told ) = @_;
    @{$self}{qw(make told)} = ( $make, $told );
    $self->_go_on;
    return $self;
}

# Goes on to the value, or until it must be made, which is nothing: for a caller that waits.
sub _run {
    my ( $self, $client ) = @_;
    my $found = $client->_asked(
        undef,
        sub {
            my ($told) = @_;
            $self->{told} = $told;
            $self->_go_on;
            return $self;
        }
    );
    return @{$found};
}

sub cancel {
    my ($self) = @_;
    delete @{$self}{qw(told timer operation)};
    $self->_leave( $self->{client} );
    $self->_wake_others;
    return;
}

sub _go_on {
    my ($self) = @_;
    delete @{$self}{qw(timer operation)};
    my $client = $self->{client};
    my ( $kind, $what ) = eval {
        $self->_step( $client, sub { $self->_go_on if $self->{told} } );
    };
    my $error = $@;
    $self->_wake_others;
    return $self->_go_on                                if !defined $kind && $self->_is_made_anew($error);
    return $self->_end( undef, $self->_placed($error) ) if !defined $kind;
    return $self->_end( $what, undef )                  if $kind == OVER;
    return $self->_make                                 if $kind == MAKE;

    if ( $kind == ASK ) {
        $self->{operation} = $what;
        return;
    }
    $self->{follows} = $kind == FOLLOW;
    $self->{timer}   = $client->_after( $what, sub { $self->_go_on } );
    return;
}

# The error, with the file and line of the call.
sub _placed {
    my ( $self, $error ) = @_;
    @{$error}{qw(file line)} = @{ $self->{place} } if UNIVERSAL::isa( $error, 'Pinyon::Error' );
    return $error;
}

sub _wake_others {
    my ($self) = @_;
    for my $other ( _woken( @{$self}{qw(client scope)} ) ) {
        $other->_go_on if delete $other->{follows};
    }
    return;
}

sub _make {
    my ($self) = @_;
    return $self->_tell( [], undef ) if !$self->{make};
    my $client = $self->{client};
    my $made   = sub {
        my ( $value, $error ) = @_;
        return if !$self->{told};
        if ( !defined $error && !eval { $self->_made( $client, $value ); 1 } ) {
            $error = $@;
        }
        if ( defined $error ) {
            $self->{failure} = $error;
            $self->_failed( ref $error ? "$error" : $error =~ s/\s+\z//r );
        }
        $self->_go_on;
    };
    my $value;
    return $made->( undef, $@ ) if !eval { $value = $self->{make}->(); 1 };
    $client->_when( $value, $made );
    return;
}

sub _end {
    my ( $self, $value, $error ) = @_;
    $error = delete $self->{failure} if defined $self->{failure};
    return $self->_tell( defined $error || $self->{make} ? $value : [$value], $error );
}

sub _tell {
    my ( $self, $value, $error ) = @_;
    my $told = delete $self->{told} or return;
    $told->( $value, $error );
    return;
}

sub DESTROY {
    my ($self) = @_;
    return if ${^GLOBAL_PHASE} eq 'DESTRUCT';
    local ( $@, $!, $? );
    $self->_leave( $self->{client} ) or return;
    $self->_wake_others;
    return;
}

1;
