package Pinyon::Batch;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon ();

my %NUMBER = map { $_ => Pinyon::_number_of($_) } qw(set add replace append prepend delete touch incr decr);

sub _number_of { return $NUMBER{ $_[0] } }

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
    return $self->_finished( $self->_finish );
}

# Takes what was not carried out, now that all outcomes are known.
sub _finished {
    my ( $self, $failed ) = @_;
    my $commands = $self->{commands};
    my $first    = $self->{finished} // 0;
    $self->{finished} = $first + @{$commands};
    $self->{commands} = [];
    $self->{client}->_tell if $self->{client}{on_event};
    return 1               if !@{$failed};

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

__END__

=encoding utf-8

=head1 NAME

Pinyon::Batch - commands that are sent without waiting for each reply

=head1 SYNOPSIS

    use Pinyon;

    my $cache = Pinyon::Cache->new(servers => '127.0.0.1:11211');
    $cache->quiet(sub {
        my ($batch) = @_;
        $batch->set("number:$_" => $_, 60) for 1 .. 1000;
    });

=head1 METHODS

=head2 new($cache)

C<quiet> of L<Pinyon::Cache> calls this.

=head2 set, add, replace, append, prepend, delete, remove, touch, incr, decr

Like the methods of L<Pinyon::Cache>, but without a result. A command that does not apply, such as C<add> for an existing key, counts
as a failure.

=head2 send

Sends what the batch has so far. Does not wait for room in the socket, or for replies.

=head2 finish

Waits for the outcome of every command. Returns true, or dies with a C<Pinyon::Error::Batch>, whose C<failures> lists the commands
that failed. The batch is then empty, and you can use it again. C<quiet> with a sub calls C<finish>.

=cut
