package Changing;

# The part of a share that changes the modes of a lock, as pinyon_verify/locks/share.py does. Share inherits it.

use 5.016;
use strict;
use warnings;

# How often a lock with names in both modes is upgraded, and not downgraded.
use constant UPGRADES => 0.7;

# Which names to upgrade or to downgrade now, for how many seconds to wait for them, the attempt that has the lock, and
# what it wanted; or nothing.
sub changes {
    my ($self) = @_;
    my $wanted = $self->{wanted};
    return if !( $wanted->is_changeable && $self->chance('changes') && $self->goes_on );
    my @read     = @{ $wanted->{read} };
    my @written  = @{ $wanted->written };
    my $upgrades = @read && ( !@written || $self->random < UPGRADES );
    my @names    = $upgrades ? @read : @written or return;
    @names = $self->_some(@names) if $self->random < 0.5;
    my $timeout = $self->chance('tries') ? 0 : $self->{settings}{patience};
    return {
        names    => \@names,
        upgrades => $upgrades,
        timeout  => $timeout,
        former   => $self->{attempt},
        before   => $wanted,
    };
}

# At least one of the names.
sub _some {
    my ( $self, @names ) = @_;
    my $count = 1 + int $self->random( scalar @names );
    my @some  = map { splice @names, int $self->random( scalar @names ), 1 } 1 .. $count;
    @some = sort @some;
    return @some;
}

# Begins an attempt: the same lock in other modes.
sub begin_change {
    my ( $self, $change ) = @_;
    $self->record('changing');
    $self->{wanted} = $self->{wanted}->changed( $change->{names}, $change->{upgrades} );
    return $self->begin_attempt( former => $change->{former} );
}

sub changed {
    my ( $self, $change, $sent ) = @_;
    return $self->{recorder}->record( 'changed', $change->{former}, sent => $sent );
}

# Goes on with the lock in its former modes, if it is held.
sub not_changed {
    my ( $self, $change, $held ) = @_;
    @{$self}{qw(attempt wanted)} = @{$change}{qw(former before)};
    return $self->believes($held);
}

1;
