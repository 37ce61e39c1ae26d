package Pinyon::Batch;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.001000';

sub CLONE_SKIP { return 1 }

# The numbers of the methods in call.h.
my %NUMBER = ( set => 5, add => 6, replace => 7, append => 8, prepend => 9, delete => 11, touch => 12, incr => 13, decr => 14 );

sub new {
    my ( $class, $client ) = @_;
    my $self = bless { client => $client, commands => [] }, $class;
    $self->_begin($client);
    return $self;
}

for my $method ( keys %NUMBER ) {
    my $number = $NUMBER{$method};
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, @arguments ) = @_;
        $self->_add( $self->{client}, $number, @arguments );
        push @{ $self->{commands} }, [ $method, "$arguments[0]" ];
        return;
    };
}
*remove = \&delete;

sub send {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self) = @_;
    $self->_send;
    return;
}

sub finish {
    my ($self) = @_;
    my $failed   = $self->_finish;
    my $commands = $self->{commands};
    my $first    = $self->{finished} // 0;
    $self->{finished} = $first + @{$commands};
    $self->{commands} = [];
    $self->{client}->_tell if $self->{client}{on_event};
    return 1 if !@{$failed};

    my @failures;
    for my $failure ( @{$failed} ) {
        my ( $number, $reason, $error ) = @{$failure};
        my ( $command, $key ) = @{ $commands->[ $number - $first ] };
        push @failures, { command => $command, key => $key, reason => $reason, error => $error };
    }
    my $more = @failures > 1 ? ', and ' . ( @failures - 1 ) . ' more in failures' : q{};
    Pinyon::Error::Batch->throw( qq{$failures[0]{command} "$failures[0]{key}": $failures[0]{reason}$more},
        failures => \@failures );
    return;
}

1;
