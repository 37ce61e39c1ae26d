package Pinyon::Loop::Batch;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Batch ();
use Pinyon::Loop  ();

our @ISA = ('Pinyon::Batch');    ## no critic (ProhibitExplicitISA)

# Commands leave at the end of the turn anyway.
sub _send { return }

sub finish {
    my ( $self, @arguments ) = @_;
    my $client = $self->{client};
    return $client->_asked(
        Pinyon::Loop::callback_of( \@arguments ),
        sub {
            my ($told) = @_;
            my $over = sub {
                my ( $failed, $error ) = @_;
                my $done = defined $error ? undef : eval { $self->_finished($failed) };
                $told->( $done, $done ? undef : $error // $@ );
            };
            return $self->_begin_finish( $client, $over );
        }
    );
}

1;
