# Stores each key's number under the key, with a Perl client. Reads a job as a line of JSON, then a key in hexadecimal
# per line.

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
