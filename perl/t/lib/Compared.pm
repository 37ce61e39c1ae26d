package Compared;

# Plays the same calls on another client and on Pinyon's replacement, and compares results and what is stored.

use 5.016;
use strict;
use warnings;

use Exporter qw(import);
use Test::More;

use Pinyon;
use Servers qw(server GENEROUS);

our @EXPORT_OK = qw(each_on_its_own_server play_both same_result stored_in new_server);

# A serializer that shows bytes and flags as they are.
package Compared::AsStored {
    sub new  { return bless {}, shift }
    sub dump { return @{ $_[1] } }
    sub load { return [ @_[ 1, 2 ] ] }
}

sub new_server {
    return server( qw(memcached -u), scalar getpwuid($>), qw(-s SOCKET -t 2) );
}

# Two clients, each with a server of its own, so that both begin with the same; and the servers.
sub each_on_its_own_server {
    my ( $original, $ours, %settings ) = @_;
    my @servers = ( new_server(), new_server() );
    my @clients =
        map { $_->[0]->new( { %settings, servers => [ $_->[1]{address} ] } ) }
        ( [ $original, $servers[0] ], [ $ours, $servers[1] ] );
    return ( @clients, @servers );
}

# Bytes and flags of keys on a server.
sub stored_in {
    my ( $server, @keys ) = @_;
    my $reader = Pinyon::Cache->new(
        servers         => [ $server->{address} ],
        serializer      => Compared::AsStored->new,
        timeout         => GENEROUS,
        connect_timeout => GENEROUS,
        max_value_size  => 2**26
    );
    return $reader->get_multi(@keys);
}

# What a call returns in list and in scalar context, or dies of.
sub _outcome {
    my ( $client, $is_list, $method, @arguments ) = @_;
    local $SIG{__WARN__} = sub { };
    my @result = eval { $is_list ? $client->$method(@arguments) : scalar $client->$method(@arguments) };
    return $@ ? "died: $@" =~ s/ at \S+ line.*//sr : \@result;
}

# CAS tokens count the server's writes, so they are the same where the same is written.
sub same_result {
    my ( $original, $ours, $method, @arguments ) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for my $is_list ( 1, 0 ) {
        my $expected = _outcome( $original, $is_list, $method, @arguments );
        my $got      = _outcome( $ours,     $is_list, $method, @arguments );
        my $shown    = "$method(" . join( ', ', map { _shown($_) } @arguments ) . ')';
        is_deeply $got, $expected, $shown . ( $is_list ? ' in list context' : ' in scalar context' )
            or diag explain { got => $got, expected => $expected };
    }
    return;
}

sub _shown {
    my ($argument) = @_;
    return 'undef'                                                   if !defined $argument;
    return '[' . join( ', ', map { _shown($_) } @{$argument} ) . ']' if ref $argument eq 'ARRAY';
    return ref $argument                                             if ref $argument;
    my $text = $argument =~ s/[^ -~]/./gr;
    return length $text > 20 ? substr( $text, 0, 17 ) . '...' : $text;
}

sub play_both {
    my ( $original, $ours, @calls ) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    same_result( $original, $ours, @{$_} ) for @calls;
    return;
}

1;
