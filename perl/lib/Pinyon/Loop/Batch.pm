package Pinyon::Loop::Batch;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Batch ();
use Pinyon::Loop  ();

our @ISA = ('Pinyon::Batch');    ## no critic (ProhibitExplicitISA)

# In an event loop the commands of a turn leave together anyway: each is an operation whose outcome is kept for `finish`.
sub new {
    my ( $class, $client ) = @_;
    return bless { client => $client, commands => [], failed => [], left => 0, number => 0, whole => undef }, $class;
}

my @REASON  = ( 'not stored', 'there is no such item', 'the item has changed' );
my %CHANGES = map { $_ => 1 } 11 .. 14;

sub _add {
    my ( $self, $client, $number, @arguments ) = @_;
    my $at   = $self->{number};
    my $over = sub {
        my ( $value, $error ) = @_;
        if ( defined $error ) {
            push @{ $self->{failed} }, [ $at, eval { $error->message } // "$error", $error ];
        }
        elsif ( !defined $value || !$value && $number != 13 && $number != 14 ) {
            push @{ $self->{failed} }, [ $at, $CHANGES{$number} ? $REASON[1] : $REASON[0], undef ];
        }
        $self->{left}--;
        $self->{whole}->() if $self->{whole} && !$self->{left};
    };
    $client->_begin( $number, $over, @arguments );
    $self->{left}++;
    $self->{number}++;
    return;
}

sub _send { return }

sub _finish {
    my ($self) = @_;
    return [ sort { $a->[0] <=> $b->[0] } splice @{ $self->{failed} } ];
}

sub finish {
    my ( $self, @arguments ) = @_;
    my $client = $self->{client};
    return $client->_asked(
        Pinyon::Loop::callback_of( \@arguments ),
        sub {
            my ($told) = @_;
            my $over = sub {
                $self->{whole} = undef;
                my $done = eval { $self->Pinyon::Batch::finish };
                $told->( $done, $done ? undef : $@ );
            };
            $self->{whole} = $over;
            $client->{loop}->later($over) if !$self->{left};
            return Pinyon::Loop::Operations->new;
        }
    );
}

1;
