package Pinyon::AnyEvent;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Loop ();
use Pinyon::Loop::Cache ();
use Pinyon::Loop::Locks ();

BEGIN { Pinyon::Loop::needs(qw(Pinyon::AnyEvent AnyEvent)) }

package Pinyon::AnyEvent::Model;

sub _closures {
    my ( $self, $ready, $turn, $expire ) = @_;
    my ( @watchers, $alarm );
    return (
        sub {
            my ( $lane, $descriptor, $write ) = @_;
            my $is_ready = sub { $ready->($lane) };
            $watchers[$lane] = [
                AE::io( $descriptor, 0, $is_ready ),
                $write ? AE::io( $descriptor, 1, $is_ready ) : ()
            ];
        },
        sub { $watchers[ $_[0] ] = undef },
        sub { &AE::postpone($turn) },
        sub { $alarm = AE::timer( $_[0], 0, $expire ) },
    );
}

# Calls after some seconds, unless what it returns is let go.
sub _after {
    my ( $self, $seconds, $code ) = @_;
    return AE::timer( $seconds, 0, $code );
}

sub _promise {
    my $condvar = AE::cv();
    return (
        $condvar,
        sub {
            my ( $value, $error ) = @_;
            return defined $error ? $condvar->croak($error) : $condvar->send($value);
        }
    );
}

# What a maker returns may be a condvar.
sub _when {
    my ( $self, $value, $callback ) = @_;
    return $callback->( $value, undef ) if !UNIVERSAL::isa( $value, 'AnyEvent::CondVar' );
    $value->cb(
        sub {
            my $found;
            return $callback->( $found, undef ) if eval { $found = $value->recv; 1 };
            return $callback->( undef, $@ );
        }
    );
    return;
}

package Pinyon::AnyEvent::Cache;

our @ISA = qw(Pinyon::AnyEvent::Model Pinyon::Loop::Cache);    ## no critic (ProhibitExplicitISA)

package Pinyon::AnyEvent::Locks;

our @ISA = qw(Pinyon::AnyEvent::Model Pinyon::Loop::Locks);    ## no critic (ProhibitExplicitISA)

1;
