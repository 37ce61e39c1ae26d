package PinyonBench::Protocol;

# How servers are written.

use v5.36;
use Exporter qw(import);

our @EXPORT_OK = qw(address_of);

# Returns host and port of a server.
sub address_of ($server) {
    my ( $host, $port ) = $server =~ /\A(.*):(\d+)\z/s or die "not a server: $server\n";
    return $host, $port;
}

1;
