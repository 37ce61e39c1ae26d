package Candidate;

# One thread or coroutine that is a candidate until time is up. It ends now and then, and begins anew.

use 5.016;
use strict;
use warnings;

use List::Util qw(max min);

# For how many seconds a program that waits campaigns at a time.
use constant LONGEST => 2;

sub new {
    my ( $class, $model, $candidacy, $locks ) = @_;
    my $self = bless { model => $model, candidacy => $candidacy }, $class;
    $self->{leader} = $locks->leader(
        $candidacy->name,
        on_elected => sub { $self->_elected(@_) },
        on_lost    => sub { $candidacy->lost(@_) },
    );
    return $self;
}

sub work {
    my ($self) = @_;
    my ( $model, $candidacy, $leader ) = @{$self}{qw(model candidacy leader)};
    while ( $candidacy->goes_on ) {
        $candidacy->begins;
        if   ( $model->has_background ) { $self->_campaign }
        else                            { $leader->run( max( 0, min( LONGEST, $candidacy->patience ) ) ) }
        $candidacy->ends;
        $leader->stop;
        $candidacy->ended;
    }
    return;
}

# The candidate goes on in the background.
sub _campaign {
    my ($self) = @_;
    my ( $model, $candidacy, $leader ) = @{$self}{qw(model candidacy leader)};
    $leader->start;
    while ( $candidacy->goes_on && !$candidacy->gives_up ) {
        $model->sleep( $candidacy->LOOK );
        $candidacy->look($leader);
    }
    return;
}

# In a program that waits, a leader works in the callback. It ends when it has resigned, or has lost.
sub _elected {
    my ( $self, $token ) = @_;
    my ( $model, $candidacy, $leader ) = @{$self}{qw(model candidacy leader)};
    $candidacy->elected($token);
    return if $model->has_background;
    while ( $candidacy->goes_on && $leader->is_leader ) {
        $model->sleep( $candidacy->LOOK );
        $candidacy->look($leader);
    }
    return;
}

1;
