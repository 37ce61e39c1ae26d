# Reads a job (see scripts.py) and gets its keys with Cache::Memcached::Fast. The servers record the requests.

use strict;
use warnings;
use Cache::Memcached::Fast;
use JSON::PP;

my $job = decode_json(scalar <STDIN>);
my @servers = map { ref $_ ? {address => $_->[0], weight => $_->[1]} : $_ } @{$job->{servers}};
my $client = Cache::Memcached::Fast->new({
    servers => \@servers,
    namespace => $job->{namespace},
    ketama_points => $job->{ketama_points},
    connect_timeout => 5,
    io_timeout => 20,
});
chomp(my @keys = <STDIN>);
$client->get_multi(map { pack 'H*', $_ } @keys);
