package Pinyon::Coro;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.001000';

use Pinyon::Loop ();
use Pinyon::Loop::Cache ();

BEGIN {
    Pinyon::Loop::needs(qw(Pinyon::Coro Coro AnyEvent Coro::AnyEvent));
    require Pinyon::AnyEvent;
    Pinyon::Coro::_load();
}

package Pinyon::Coro::Model;

our @ISA = ('Pinyon::AnyEvent::Model');    ## no critic (ProhibitExplicitISA)

sub _has_coroutines { return 1 }

# Starts something that calls back, and lets the coroutine wait for it. If the coroutine ends it is cancelled.
sub _asked {
    my ( $self, $callback, $start ) = @_;
    return $start->($callback) if $callback;
    my $rouse     = Coro::rouse_cb();
    my $operation = $start->($rouse);
    my $guard     = Pinyon::Coro::Guard->new($operation);
    my ( $value, $error ) = Coro::rouse_wait($rouse);
    $guard->let_go;
    die $error if defined $error;
    return $value;
}

# A coroutine is a caller of its own: it must not wait for itself.
sub _owner { return $Coro::current->{_pinyon_owner} ||= Pinyon::_new_owner() }

package Pinyon::Coro::Cache;

our @ISA = qw(Pinyon::Coro::Model Pinyon::Loop::Cache);    ## no critic (ProhibitExplicitISA)

for my $method ( Pinyon::Loop::Many::methods() ) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, @arguments ) = @_;
        my $many = Pinyon::Loop::Many->new( $method, \@arguments );
        my @operations = map { $self->_begin( $many->{number}, undef, @{$_} ) } @{ $many->{calls} };
        for my $index ( 0 .. $#operations ) {
            my $value;
            next if eval { $value = Pinyon::Coro::_wait( $operations[$index] ); $many->take( $index, $value, undef ); 1 };
            die $@ if !UNIVERSAL::isa( $@, 'Pinyon::Error' );
            $many->take( $index, undef, $@ );
        }
        my ( $results, $error ) = $many->outcome;
        die $error if defined $error;
        return wantarray && $method !~ /\Aga?ts?_|\Agets?_/ ? $many->values_in_order : $results;
    };
}

# The maker runs in the coroutine that asks.
sub get_or_set {
    my ( $self, $key, $make, %options ) = @_;
    if ( ref $make ne 'CODE' ) {
        Pinyon::Error::Usage->throw('get_or_set takes a key and a reference to a sub that makes the value');
    }
    return Pinyon::Loop::Making->new( $self, $key, %options )->value($make);
}

package Pinyon::Coro::Guard;

sub new {
    my ( $class, $operation ) = @_;
    return bless { operation => $operation }, $class;
}

sub let_go {
    my ($self) = @_;
    delete $self->{operation};
    return;
}

sub DESTROY {
    my ($self) = @_;
    $self->{operation}->cancel if $self->{operation};
    return;
}

1;
