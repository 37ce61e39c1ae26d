package Pinyon::Loop::Cache;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(reftype);

use Pinyon                   ();
use Pinyon::Loop             ();
use Pinyon::Loop::Batch      ();
use Pinyon::Loop::Lease      ();
use Pinyon::Loop::Making     ();
use Pinyon::Loop::MakingMany ();
use Pinyon::Loop::Many       ();

our @ISA = qw(Pinyon::Loop::Asking Pinyon::Cache);    ## no critic (ProhibitExplicitISA)

use constant { META => Pinyon::_number_of('meta'), LEASE => Pinyon::_number_of('lease') };

sub new {
    my ( $class, @arguments ) = @_;
    return $class->_made_in_loop( \&Pinyon::Cache::new, @arguments );
}

sub using {
    my ( $self, %settings ) = @_;
    my $view = Pinyon::Cache::using( $self, %settings );
    $self->{loop}->_share($view);
    return $view;
}

sub close {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self) = @_;
    $self->{loop}->end_behind;
    $self->{loop}->_close;
    return Pinyon::Cache::close($self);
}

sub _promise_call {
    my ( $self, $number, @arguments ) = @_;
    return $self->_asked( undef, sub { $self->_begin( $number, $_[0], @arguments ) } );
}

for my $method ( Pinyon::Loop::Many::methods() ) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, @arguments ) = @_;
        my $callback = Pinyon::Loop::callback_of( \@arguments );
        return $self->_asked( $callback, sub { Pinyon::Loop::Many->begin( $self, $method, \@arguments, $_[0] ) } );
    };
}

sub remove { goto &delete }

sub exists {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $key, @arguments ) = @_;
    return $self->_asked(
        Pinyon::Loop::callback_of( \@arguments ),
        sub {
            my ($told) = @_;
            return $self->_begin( META, sub { $told->( defined $_[1] ? undef : defined $_[0], $_[1] ) }, $key );
        }
    );
}

sub lease {
    my ( $self, $key, @arguments ) = @_;
    return $self->_asked(
        Pinyon::Loop::callback_of( \@arguments ),
        sub {
            my ($told) = @_;
            my ( $renewals, $made ) = ( Pinyon::Lease::RENEWALS(), undef );
            $made = sub {
                my ( $found, $error ) = @_;
                if ( !defined $error && $found->[0] eq 'unreadable' && $renewals-- > 0 ) {
                    return $self->_begin( LEASE, $made, $key, @arguments, unreadable => $found->[1] );
                }
                undef $made;
                $told->( defined $error ? undef : Pinyon::Loop::Lease->new( $self, $key, $found ), $error );
            };
            return $self->_begin( LEASE, $made, $key, @arguments );
        }
    );
}

sub iter_multi {
    my ( $self, $keys, %options ) = @_;
    my $iterating = Pinyon::Iterating->new( $self, $keys, %options );
    return sub {
        my @arguments = @_;
        return $self->_asked( Pinyon::Loop::callback_of( \@arguments ), sub { $iterating->pair_later( $_[0] ) } );
    };
}

sub get_or_set {
    my ( $self, $key, $make, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            if ( ( reftype( $make // q{} ) // q{} ) ne 'CODE' ) {
                Pinyon::Error::Usage->throw('get_or_set takes a key and a reference to a sub that makes the value');
            }
            return Pinyon::Loop::Making->new( $self, $key, @arguments )->begin( $make, $told );
        }
    );
}

sub get_or_set_multi {
    my ( $self, $keys, $make, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_asked( $callback,
        sub { Pinyon::Loop::MakingMany->new( $self, $keys, $make, @arguments )->begin_all( $_[0] ) } );
}

sub _refreshed {
    my ( $self, $key, $make, %options ) = @_;
    return $self->_asked( undef, sub { Pinyon::Loop::Making->anew( $self, $key, %options )->begin( $make, $_[0] ) } );
}

sub quiet {
    my ( $self, $fill, @arguments ) = @_;
    my $batch = $self->_new_batch;
    return $batch if !$fill;
    $fill->($batch);
    return $batch->finish(@arguments);
}

sub _new_batch {
    my ($self) = @_;
    return Pinyon::Loop::Batch->new($self);
}

sub version {
    my ( $self, @arguments ) = @_;
    return $self->_question( 0, undef, undef, \@arguments );
}

sub stats {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_question( 1, $arguments[0], undef, [ $callback ? ( cb => $callback ) : () ] );
}

sub flush_all {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            return $self->_begin_question( sub { $told->( defined $_[1] ? undef : 1, $_[1] ) }, 2, undef, $arguments[0] );
        }
    );
}

sub clear_namespace {
    my ( $self, @arguments ) = @_;
    my $callback = Pinyon::Loop::callback_of( \@arguments );
    return $self->_asked(
        $callback,
        sub {
            my ($told) = @_;
            return $self->_begin_question( sub { $told->( defined $_[1] ? undef : 1, $_[1] ) }, 3, undef, undef );
        }
    );
}

sub invalidate_tags {
    my ( $self, @tags ) = @_;
    return $self->_asked(
        Pinyon::Loop::callback_of( \@tags ),
        sub {
            my ($told) = @_;
            return $self->_begin_question( sub { $told->( defined $_[1] ? undef : 1, $_[1] ) }, 4, \@tags, undef );
        }
    );
}

sub _question {
    my ( $self, $number, $value, $delay, $arguments ) = @_;
    return $self->_asked( Pinyon::Loop::callback_of($arguments),
        sub { $self->_begin_question( $_[0], $number, $value, $delay ) } );
}

1;
