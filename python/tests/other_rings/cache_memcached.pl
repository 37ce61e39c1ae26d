# Where Cache::Memcached puts keys. Reads a job (see scripts.py), and writes one place per key.

use strict;
use warnings;
use Cache::Memcached;
use JSON::PP;

my $job = decode_json(scalar <STDIN>);
my @names = map { ref $_ ? $_->[0] : $_ } @{$job->{servers}};
my %place = map { $names[$_] => $_ } 0 .. $#names;
my %dead = map { $names[$_] => 1 } @{$job->{dead}};
my $client = Cache::Memcached->new({servers => $job->{servers}, namespace => $job->{namespace}});
{
    no warnings 'redefine';
    *Cache::Memcached::sock_to_host = sub { $dead{$_[1]} ? undef : $_[1] };
}
while (my $line = <STDIN>) {
    chomp $line;
    my $host = $client->get_sock(pack 'H*', $line);
    print defined $host ? $place{$host} : '', "\n";
}
