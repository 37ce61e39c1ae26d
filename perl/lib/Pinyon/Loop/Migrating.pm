package Pinyon::Loop::Migrating;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Loop           ();
use Pinyon::Loop::Cache    ();
use Pinyon::MigratingCache ();

# What migrating clients of event loops have instead of what their clients have.

sub new {
    my ( $class, $old, $new, @arguments ) = @_;
    Pinyon::MigratingCache::_check_clients( $old, $new );
    my $host = $new->{host};
    $host = $class->_take_loop( \@arguments ) if !defined $host || grep { !ref && $_ eq 'loop' } @arguments;
    return Pinyon::MigratingCache::new( $class, $old, $new, @arguments )->_enter_loop($host);
}

sub using {
    my ( $self, %settings ) = @_;
    my $view = Pinyon::MigratingCache::using( $self, %settings );
    $self->{loop}->_share($view);
    return $view;
}

sub close {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self) = @_;
    $self->{loop}->end_behind;
    $self->{loop}->_close;
    return Pinyon::MigratingCache::close($self);
}

sub quiet { goto &Pinyon::MigratingCache::quiet }
sub _tell { goto &Pinyon::MigratingCache::_tell }

1;
