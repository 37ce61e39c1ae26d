package Pinyon::Locks;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.001000';

use Scalar::Util qw(reftype);

use Pinyon ();
use Pinyon::Lock ();
use Pinyon::Settings ();

sub new {
    my ( $class, @arguments ) = @_;
    my $url      = @arguments % 2 && !ref $arguments[0] ? shift @arguments : undef;
    my %settings = Pinyon::Settings::given( $class, @arguments );
    $settings{url} = $url if defined $url;
    my $self = bless { listeners => {} }, $class;
    $self->_attach( Pinyon::Settings::flat(%settings) );
    return $self;
}

sub lock {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $names, %options ) = @_;
    return $self->_acquired( $names, \%options, 0 );
}

sub try_lock {
    my ( $self, $names, %options ) = @_;
    Pinyon::Error::Usage->throw('try_lock does not wait: leave out timeout') if exists $options{timeout};
    return $self->_acquired( $names, \%options, 1 );
}

sub synchronized {
    my ( $self, $names, $code, %options ) = @_;
    if ( ( reftype( $code // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('synchronized takes names and a reference to a sub');
    }
    my $lock     = $self->lock( $names, %options );
    my $is_list  = wantarray;
    my @results  = $is_list ? $code->($lock) : scalar $code->($lock);
    my $was_held = $lock->is_released || $lock->release;
    $lock->_die_of_loss if !$was_held;
    return $is_list ? @results : $results[0];
}

sub _acquired {
    my ( $self, $names, $options, $at_once ) = @_;
    $self->_take_notes;
    my $on_lost = delete $options->{on_lost};
    my $lock    = Pinyon::Lock->_new( $self, $names );
    $self->_acquire( $lock, $names, $options, $at_once ) or return;
    $lock->{is_held} = 1;
    $lock->on_lost($on_lost) if $on_lost;
    return $lock;
}

sub status {
    my ( $self, $names ) = @_;
    my $found = $self->_inspect($names);
    return wantarray ? @{$found} : $found->[0];
}

sub is_locked {
    my ( $self, $names ) = @_;
    return ( grep { defined $_->{holder} } @{ $self->_inspect($names) } ) ? 1 : q{};
}

sub owner {
    my ( $self, $names ) = @_;
    my ($held) = grep { defined $_->{holder} } @{ $self->_inspect($names) };
    return $held && $held->{holder};
}

sub waiting {
    my ( $self, $names ) = @_;
    my %waits = map { $_ => 1 } map { @{ $_->{waiting} } } @{ $self->_inspect($names) };
    return scalar keys %waits;
}

sub force_release {
    my ( $self, $names, %options ) = @_;
    return $self->_force_release( $names, $options{token} );
}

sub execute {
    my ( $self, @parts ) = @_;
    my $answer = $self->_execute( \@parts );
    die $answer if ref $answer && eval { $answer->isa('Pinyon::Error') };
    return $answer;
}

# Takes notes of what happened by itself: warns, and tells the listeners of this thread, whoever took the note.
sub _take_notes {
    my ($self) = @_;
    while ( defined( my $warning = $self->_next_warning ) ) {
        warn "pinyon: $warning\n";
    }
    for my $lock ( values %{ $self->{listeners} } ) {
        $lock->_lost if $lock && $lock->_loss;
    }
    return;
}

1;
