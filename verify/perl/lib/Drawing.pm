package Drawing;

# What draws for one worker. Coroutines share Perl's own generator; so each worker has one.

use 5.016;
use strict;
use warnings;

# Begins with the seed of the settings and the number of the worker.
sub begin_drawing {
    my ( $self, $number ) = @_;
    $self->{drawn} = ( $self->{settings}{seed} * 100_003 + $number * 7919 + 1 ) % 0x8000_0000;
    $self->random for 1 .. 10;
    return;
}

# A number below `below`, or 1.
sub random {
    my ( $self, $below ) = @_;
    $self->{drawn} = ( $self->{drawn} * 1_103_515_245 + 12_345 ) % 0x8000_0000;
    return $self->{drawn} / 0x8000_0000 * ( $below // 1 );
}

# Whether what happens so often is to happen now.
sub chance {
    my ( $self, $setting ) = @_;
    return $self->random < $self->{settings}{$setting};
}

1;
