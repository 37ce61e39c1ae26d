package Pinyon::Loop::MakingMany;

use 5.016;
use strict;
use warnings;
use mro 'c3';

our $VERSION = '0.1.0';

use Scalar::Util qw(weaken);

use Pinyon::Loop::Many   ();
use Pinyon::Loop::Making ();
use Pinyon::MakingMany   ();

our @ISA = ( 'Pinyon::Loop::Making', 'Pinyon::MakingMany' );    ## no critic (ProhibitExplicitISA)

sub _begin {
    my ( $self, $client, @arguments ) = @_;
    $self->{scope} = $client->{loop}->_scope;
    $self->{place} = [ Pinyon::Error::_users_place() ];
    return $self->Pinyon::MakingMany::_begin( $client, @arguments, $self->{scope}, $client->_owner );
}

# Goes all the way, and calls back with values and error. What is returned can be cancelled.
sub begin_all {
    my ( $self, $told ) = @_;
    my $weak = $self;
    weaken $weak;
    return $self->begin( sub { $weak->_called }, $told );
}

# The next step. Goes on after the last reply to its requests.
sub _step {
    my ( $self, $client, $go_on ) = @_;
    my $left;
    my ( $kind, $what ) = $self->_begin_step( $client, sub { $go_on->() if !--$left } );
    return ( $kind, $what ) if ref $what ne 'ARRAY';
    $left = @{$what};
    my $operations = Pinyon::Loop::Operations->new;
    $operations->add($_) for @{$what};
    return ( $kind, $operations );
}

sub _end {
    my ( $self, $value, $error ) = @_;
    if ( !defined $error ) {
        ( $value, $error ) = $self->_outcome or return $self->_go_on;
        $value = undef if defined $error;
    }
    return $self->next::method( $value, defined $error ? $self->_placed($error) : undef );
}

1;
