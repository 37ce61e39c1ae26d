package Pinyon::Loop::Lease;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon        ();
use Pinyon::Lease ();
use Pinyon::Loop  ();

our @ISA = ('Pinyon::Lease');    ## no critic (ProhibitExplicitISA)

use constant CAS => Pinyon::_number_of('cas');

sub fulfil {
    my ( $self, $value, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    my $client   = $self->{client};
    return $self->_ended( $callback,
        sub { $client->_begin( CAS, $_[0], $self->{key}, $value, $self->{token}, @arguments ? $arguments[0] : () ) } );
}

sub give_back {
    my ( $self, @arguments ) = @_;
    my $client = $self->{client};
    return $self->_ended( Pinyon::Loop::callback_of( \@arguments ),
        sub { $client->_begin_give_back( $_[0], @{$self}{qw(key token stays)} ) } );
}

sub _ended {
    my ( $self, $callback, $start ) = @_;
    my $client = $self->{client};
    return $client->_asked(
        $callback,
        sub {
            my ($told) = @_;
            $self->_must_be_won;
            if ( !$self->{is_open} ) {
                $client->{loop}->later( sub { $told->( q{}, undef ) } );
                return Pinyon::Loop::Operations->new;
            }
            my $operation = $start->( sub { $told->( defined $_[1] ? undef : $_[0] ? 1 : q{}, $_[1] ) } );
            $self->{is_open} = 0;
            return $operation;
        }
    );
}

# A win that nobody used is given back without waiting.
sub DESTROY {
    my ($self) = @_;
    return if !$self->_goes_open;
    local ( $@, $!, $? );
    eval {
        $self->{client}->_begin_give_back( sub { }, @{$self}{qw(key token stays)} );
        1;
    } or 1;
    return;
}

1;
