package Pinyon::Mojo;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Loop ();
use Pinyon::Loop::Cache ();
use Pinyon::Loop::Locks ();

BEGIN { Pinyon::Loop::needs(qw(Pinyon::Mojo Mojo::IOLoop Mojo::Promise)) }

package Pinyon::Mojo::Model;

use Scalar::Util qw(blessed);

# Takes the loop off the settings; without it the one loop of the process is used.
sub _take_loop {
    my ( $class, $arguments ) = @_;
    for ( my $index = @{$arguments} % 2; $index < @{$arguments}; $index += 2 ) {
        next if $arguments->[$index] ne 'loop';
        my ( undef, $loop ) = splice @{$arguments}, $index, 2;
        return $loop if blessed $loop && $loop->isa('Mojo::IOLoop');
        Pinyon::Error::Usage->throw('loop is a Mojo::IOLoop');
    }
    return Mojo::IOLoop->singleton;
}

sub _closures {
    my ( $self, $ready, $turn, $expire ) = @_;
    my $loop    = $self->{host};
    my $reactor = $loop->reactor;
    my ( @handles, $alarm );
    return (
        sub {
            my ( $lane, $descriptor, $write ) = @_;
            if ( !$handles[$lane] ) {

                # A copy of the descriptor, for a handle closes its own.
                open my $handle, '+<&', $descriptor or Pinyon::Error::Connect->throw("cannot copy a descriptor: $!");
                $handles[$lane] = $handle;
                $reactor->io( $handle => sub { $ready->($lane) } );
            }
            $reactor->watch( $handles[$lane], 1, $write ? 1 : 0 );
        },
        sub {
            my ($lane) = @_;
            my $handle = delete $handles[$lane] or return;
            $reactor->remove($handle);
        },
        sub { $reactor->next_tick($turn) },
        sub {
            $reactor->remove($alarm) if defined $alarm;
            $alarm = $reactor->timer( $_[0] => sub { $alarm = undef; $expire->() } );
        },
    );
}

sub _after {
    my ( $self, $seconds, $code ) = @_;
    my $reactor = $self->{host}->reactor;
    return Pinyon::Loop::Timer->new( $reactor->timer( $seconds => $code ), sub { $reactor->remove( $_[0] ) } );
}

sub _promise {
    my ($self) = @_;
    my $promise = Mojo::Promise->new->ioloop( $self->{host} );
    return (
        $promise,
        sub {
            my ( $value, $error ) = @_;
            return defined $error ? $promise->reject($error) : $promise->resolve($value);
        }
    );
}

sub _when {
    my ( $self, $value, $callback ) = @_;
    return $callback->( $value, undef ) if !( blessed $value && $value->can('then') );
    $value->then( sub { $callback->( $_[0], undef ) }, sub { $callback->( undef, $_[0] ) } );
    return;
}

package Pinyon::Mojo::Cache;

our @ISA = qw(Pinyon::Mojo::Model Pinyon::Loop::Cache);    ## no critic (ProhibitExplicitISA)

package Pinyon::Mojo::Locks;

our @ISA = qw(Pinyon::Mojo::Model Pinyon::Loop::Locks);    ## no critic (ProhibitExplicitISA)

1;
