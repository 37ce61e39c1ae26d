package Pinyon::Lock;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(reftype);

use Pinyon ();    # RELEASE and other constants, from src/numbers.c

sub is_lost {
    my ($self) = @_;
    return !$self->is_released && !$self->is_held ? 1 : q{};
}

sub check {
    my ($self) = @_;
    $self->_client->_take_notes;
    $self->_check;
    return $self;
}

sub extend {
    my ( $self, $ttl ) = @_;
    my $locks = $self->_client;
    $locks->_take_notes;
    return $self->_wish( $locks, EXTEND, $ttl ) ? 1 : q{};
}

sub hand_over {
    my ( $self, $ttl ) = @_;
    my $locks = $self->_client;
    $locks->_take_notes;
    my $ticket = $self->_wish( $locks, HAND_OVER, $ttl );
    $self->_note_release( 0, 1 );
    $self->_listen_no_more;
    return $ticket;
}

sub upgrade {
    my ( $self, $names, %options ) = @_;
    my $locks = $self->_client;
    $locks->_take_notes;
    $self->_wish( $locks, UPGRADE, _change( $names, %options ) );
    return $self;
}

sub downgrade {
    my ( $self, $names ) = @_;
    my $locks = $self->_client;
    $locks->_take_notes;
    $self->_wish( $locks, DOWNGRADE, _change($names) );
    return $self;
}

# The names of a change, and how long it waits.
sub _change {
    my ( $names, %options ) = @_;
    my $timeout = delete $options{timeout};
    if ( my ($other) = sort keys %options ) {
        Pinyon::Error::Usage->throw("upgrade has no option $other: it takes names, and the option timeout");
    }
    return [ $names // [], $timeout ];
}

# Releases it although its names were to stay locked for longer.
sub _release_early {
    my ($self) = @_;
    return if $self->_is_over;
    $self->_note_release( 0, $self->_wish( $self->_client, RELEASE, 1 ) );
    return;
}

sub wait {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $timeout ) = @_;
    my $locks = $self->_client;
    $locks->_take_notes;
    return $self->_wish( $locks, PARK, $timeout ) ? 1 : q{};
}

sub wait_for {
    my ( $self, $predicate, $timeout ) = @_;
    require Time::HiRes;
    my $until = defined $timeout ? Time::HiRes::time() + $timeout : undef;
    while (1) {
        my $found = $predicate->();
        return $found if $found;
        my $left = defined $until ? $until - Time::HiRes::time() : undef;
        return $found if defined $left && $left <= 0;
        $self->wait($left);
    }
    return;
}

sub notify {
    my ( $self, $count ) = @_;
    $count //= 1;
    if ( $count !~ /\A[1-9]\d*\z/ ) {
        Pinyon::Error::Usage->throw("notify wakes 1 or more, not $count; notify_all wakes all");
    }
    return $self->_wish( $self->_client, NOTIFY, $count );
}

sub notify_all {
    my ($self) = @_;
    return $self->_wish( $self->_client, NOTIFY, 0 );
}

sub on_lost {
    my ( $self, $callback ) = @_;
    if ( ( reftype( $callback // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('on_lost takes a reference to a sub');
    }
    push @{ $self->{callbacks} }, $callback;
    $self->_listen;
    $self->_lost if $self->_loss;
    return $self;
}

sub _lost {
    my ($self) = @_;
    $self->_listen_no_more;
    my @callbacks = splice @{ $self->{callbacks} || [] };
    for my $callback (@callbacks) {
        next if eval { $callback->($self); 1 };
        warn "pinyon: a callback of on_lost failed: $@";
    }
    return;
}

# Called when the object goes, and its lock could not be released.
sub _not_released {
    my ( $self, $why ) = @_;
    my $names = join( q{ }, $self->names ) || 'permits';
    $why = "$why" =~ s/ at \S+ line \d+\.\n\z//r;
    warn "pinyon: the lock on $names is not released yet: $why\n";
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Lock - a lock that is held until the end of a scope

=head1 SYNOPSIS

    use Pinyon;

    my $locks = Pinyon::Locks->new('redis://127.0.0.1:6379/0');
    my $lock  = $locks->lock('report');
    $lock->check;
    say $lock->release;    # 1

=head1 DESCRIPTION

C<lock> of L<Pinyon::Locks> returns this object. When its last reference goes, Pinyon releases the lock, and warns if that fails.
C<$@>, C<$!> and C<$?> keep their values. In a forked child nothing happens, because the child does not hold the lock.

=head1 METHODS

=head2 names

The names that the lock writes or reads, as you passed them to C<lock>.

=head2 token

The fencing token: a number that is higher than the token of any earlier lock on any of the names. A storage that you write to
under the lock should refuse a writer with a lower token.

=head2 note

What its holder says about the lock: the option C<note>.

=head2 remaining

Seconds for which the lock remains held if nothing renews it; 0 if it is not held.

=head2 is_certain

Whether the lock has been held from its acquisition until now, or until its release. It is not if it was lost, or if
C<< on_failure => 'proceed' >> let the work go on without it while the servers were away: then the work may not have been alone.

=head2 is_held, is_lost, is_released

Whether the lock is held, was lost, or was released.

=head2 check

Returns the lock, or dies with C<Pinyon::Error::LockLost>.

=head2 release

Releases the lock. Returns whether it was held until then. A second call does nothing.

=head2 extend($ttl)

Extends the lock to so many seconds from now. Returns whether it is still held.

=head2 hand_over($ttl)

Hands the lock over to another process, in any language, and returns the ticket: text for C<adopt> of L<Pinyon::Locks>, which works
once. The lock is never free meanwhile. From then on this process neither renews nor releases it. If no process adopts it within
so many seconds, by default its own C<ttl>, it expires. Whoever has the ticket can take the lock over.

=head2 upgrade($names, %options), downgrade($names)

C<upgrade> writes names that the lock reads, one or a reference to an array; without any, all of them. Nobody else writes them in
between. It waits for others that read them, for the option C<timeout> in seconds, or as long as the lock was to wait; 0 does not
wait. The lock gets a new, higher token. If others still read, C<upgrade> dies with C<Pinyon::Error::LockTimeout>, and if one of
them waits to write as well, with C<Pinyon::Error::Deadlock>; then the lock reads as before.

C<downgrade> reads names that the lock writes, and lets in readers that wait. Both return the lock.

=head2 wait($timeout)

Releases the names until another holder calls C<notify>, then acquires them again. Returns whether it was notified.

=head2 wait_for($sub, $timeout)

Calls C<wait> until the sub returns a true value, and returns that value.

=head2 notify($count), notify_all

Wake callers of C<wait> on the same names; those that have waited longest wake first. Return how many there were.

=head2 on_lost($sub)

Calls the sub with the lock when the lock is lost: at the next call of a method of Pinyon, or at once if it is already lost.

=cut
