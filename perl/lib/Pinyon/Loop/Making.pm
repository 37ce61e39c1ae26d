package Pinyon::Loop::Making;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon         ();
use Pinyon::Making ();

our @ISA = ('Pinyon::Making');    ## no critic (ProhibitExplicitISA)

# The kinds of steps, such as ASK, are constants in src/numbers.c.

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

# A caller that has left with the old value has nothing to cancel.
sub cancel {
    my ($self) = @_;
    $self->_abandon if !$self->{is_behind};
    return;
}

sub _abandon {
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
    my ( $kind, $what, @old ) = eval {
        $self->_step( $client, sub { $self->_go_on if $self->{told} }, $self->{is_behind} );
    };
    my $error = $@;
    $self->_wake_others;
    return $self->_go_on if !defined $kind && !defined $self->{failure} && $self->_is_made_anew($error);
    return $self->_end( undef, $self->_placed($error) ) if !defined $kind;
    return $self->_end( $what, undef )                  if $kind == OVER;
    return $self->_make                                 if $kind == MAKE;
    return $self->_make_within( $what, @old )           if $kind == MAKE_WITHIN;
    return $self->_return_old                           if $kind == RETURN_OLD;

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
    return $self->{make} ? $self->_begin_maker : $self->_tell( [], undef );
}

# Begins the maker beside the caller, which waits for it so long. A caller that cannot read the old value waits to the end.
sub _make_within {
    my ( $self, $seconds, @stored ) = @_;
    my $client = $self->{client};
    return $self->_make if !eval { $self->{old} = $self->_read( $client, @stored ); 1 };
    if ( $seconds == 0 ) {
        @{$self}{qw(leaves begins_behind)} = ( 1, 1 );
        return $self->_go_on;
    }
    $self->{timer} = $client->_after( $seconds, sub { $self->{leaves} = 1; $self->_go_on } );
    return $self->_begin_maker;
}

# The caller has the old value and is done. The client ends what goes on behind it when it is closed.
sub _return_old {
    my ($self) = @_;
    my ( $old, $ended, $told ) = delete @{$self}{qw(old ended told)};
    my $loop = $self->{client}{loop};
    delete $self->{leaves};
    @{$self}{qw(is_behind told)} = ( 1, sub { } );
    $loop->keep_behind($self);
    $loop->later( sub { $self->_begin_maker if $self->{told} } ) if delete $self->{begins_behind};
    $self->_maker_ended( @{$ended} )                             if $ended;
    return $told->( $self->{make} ? $old : [$old], undef );
}

sub _begin_maker {
    my ($self) = @_;
    return $self->{client}->_carry_out( $self->{make} // $self->{beside}, sub { $self->_maker_ended(@_) } );
}

# Takes what the maker made, or its error: once the caller has left, if it is about to leave.
sub _maker_ended {
    my ( $self, $value, $error ) = @_;
    return if !$self->{told};
    if ( $self->{leaves} ) {
        $self->{ended} = [ $value, $error ];
        return;
    }
    delete $self->{timer};
    if ( !defined $error && !eval { $self->_made( $self->{client}, $value ); 1 } ) {
        $error = $self->_placed($@);
    }
    if ( defined $error ) {
        $self->{failure} = $error;
        $self->_failed( Pinyon::Making::_reason_of($error) );
    }
    return $self->_go_on;
}

sub _end {
    my ( $self, $value, $error ) = @_;
    my $failure = delete $self->{failure};
    $error = $failure if defined $error && defined $failure;
    return $self->_tell( defined $error || $self->{make} ? $value : [$value], $error );
}

sub _tell {
    my ( $self, $value, $error ) = @_;
    my $told = delete $self->{told} or return;
    $self->{client}{loop}->forget_behind($self) if $self->{is_behind};
    $told->( $value, $error );
    return;
}

sub DESTROY {
    my ($self) = @_;
    return if ${^GLOBAL_PHASE} eq 'DESTRUCT';
    local ( $@, $!, $? );
    $self->{client}{loop}->forget_behind($self) if $self->{is_behind};
    $self->_leave( $self->{client} ) or return;
    $self->_wake_others;
    return;
}

1;
