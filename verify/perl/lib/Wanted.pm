package Wanted;

# What an attempt wants: names to write, names to read, and permits of pools, as pinyon_verify/locks/wanted.py draws it.

use 5.016;
use strict;
use warnings;

use List::Util qw(min);

# The most permits of a pool that one attempt wants, and between how many seconds a lock is kept at least.
use constant MOST_PERMITS => 2;
use constant LEAST_TIMES  => ( 0.01, 0.05 );

sub new {
    my ( $class, %more ) = @_;
    return bless { read => [], permits => {}, at_least => 0, %more }, $class;
}

# Draws with `random`, a sub that returns a number below another or 1. `mark` is a name that only this worker has.
sub draw {
    my ( $class, $settings, $random, $names, $mark ) = @_;
    my @others = @{$names};
    my $count  = $settings->{fewest} + int $random->( min( $settings->{most}, scalar @others ) - $settings->{fewest} + 1 );
    my @drawn  = map { splice @others, int $random->( scalar @others ), 1 } 1 .. $count;
    my @read   = _read( $settings->{reads}, $random, @drawn );
    my %permits;
    if ( $random->() < $settings->{permits} ) {
        $permits{ 'p' . int $random->( $settings->{pools} ) } = 1 + int $random->(MOST_PERMITS);
        @drawn = @read = () if $random->() < 0.5;
    }
    push @drawn, $mark if $settings->{marked};
    my ( $least, $most ) = LEAST_TIMES;
    my $at_least = 0;
    $at_least = $least + $random->( $most - $least ) if !@read && !%permits && $random->() < $settings->{at_least};
    return $class->new( names => [ sort @drawn ], read => \@read, permits => \%permits, at_least => $at_least );
}

sub _read {
    my ( $often, $random, @names ) = @_;
    my $kind = $random->();
    return @names                            if $kind < $often;
    return grep { $random->() < 0.5 } @names if $kind < 1.5 * $often;
    return;
}

sub names { return $_[0]{names} }

sub reads {
    my ( $self, $name ) = @_;
    return scalar grep { $_ eq $name } @{ $self->{read} };
}

sub written {
    my ($self) = @_;
    return [ grep { !$self->reads($_) } @{ $self->{names} } ];
}

# Whether an upgrade or a downgrade is not refused.
sub is_changeable { return !$_[0]{at_least} }

# The same with these names written, or else read.
sub changed {
    my ( $self, $names, $is_written ) = @_;
    my %is_changed = map  { $_ => 1 } @{$names};
    my @read       = grep { $is_changed{$_} ? !$is_written : $self->reads($_) } @{ $self->{names} };
    return ( ref $self )->new( %{$self}, read => \@read );
}

sub may_be_handed_over {
    my ($self) = @_;
    return !@{ $self->{read} } && !%{ $self->{permits} };
}

# The options of `lock` for what is beside the names to write. A plain lock has none.
sub options {
    my ( $self, $limit ) = @_;
    my %permits = map { $_ => [ $self->{permits}{$_}, $limit ] } keys %{ $self->{permits} };
    return (
        @{ $self->{read} } ? ( read     => $self->{read} )     : (),
        %permits           ? ( permits  => \%permits )         : (),
        $self->{at_least}  ? ( at_least => $self->{at_least} ) : (),
    );
}

# What the history says of it.
sub facts {
    my ($self) = @_;
    return map { $_ => $self->{$_} } qw(names read permits at_least);
}

1;
