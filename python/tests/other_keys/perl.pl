# Stores the number of each key under it by a client for Perl: reads a job, a line of JSON, and a key in hexadecimal on
# each line.

use strict;
use warnings;
use JSON::PP;

my $job = decode_json(scalar <STDIN>);
eval "require $job->{class}" or die $@;
my $client = $job->{class}->new({servers => [$job->{server}], namespace => $job->{namespace}});
my $number = 0;
while (my $line = <STDIN>) {
    chomp $line;
    $client->set(pack('H*', $line), $number++);
    $client->disconnect_all;
}
