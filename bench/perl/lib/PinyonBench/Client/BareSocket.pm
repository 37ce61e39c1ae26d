package PinyonBench::Client::BareSocket;

# The least that Perl can do: one request in one write, its reply read into one buffer. It looks at no more than where a reply
# ends.

use v5.36;
use IO::Socket::INET ();
use PinyonBench::Calls;
use PinyonBench::Protocol qw(address_of);
use Socket                qw(IPPROTO_TCP TCP_NODELAY);

# Read at once; more than a value of 100 KB.
use constant READ_BYTES => 1 << 18;

# The length of the line end and of the end of a reply to a get.
use constant {LINE_END => 2, GET_END => 7};

sub new ( $class, $model ) {
    return bless {model => $model}, $class;
}

sub version ($self) {
    return $self->{model}->version;
}

sub configuration ($) {
    return 'syswrite and sysread, TCP_NODELAY; classic text';
}

sub connect ( $, $servers, $, $ ) {
    my ( $host, $port ) = address_of( $servers->[0] );
    my $socket = IO::Socket::INET->new( PeerAddr => $host, PeerPort => $port ) or die "no connection: $@\n";
    $socket->setsockopt( IPPROTO_TCP, TCP_NODELAY, 1 );
    return PinyonBench::Calls->new( client => $socket, get => \&_get, set => \&_set, close => sub { close $socket } );
}

sub _set ( $socket, $key, $value ) {
    _write( $socket, "set $key 0 0 " . length($value) . "\r\n$value\r\n" );
    sysread $socket, my $reply, READ_BYTES;
    return $reply eq "STORED\r\n";
}

sub _get ( $socket, $key ) {
    _write( $socket, "get $key\r\n" );
    sysread $socket, my $reply, READ_BYTES or die "the server is gone\n";
    return if $reply eq "END\r\n";
    my $head  = index( $reply, "\r\n" ) + LINE_END;
    my $space = 1 + rindex $reply, q{ }, $head;
    my $size  = substr $reply, $space, $head - LINE_END - $space;
    my $left  = $head + $size + GET_END - length $reply;
    while ( $left > 0 ) {
        my $more = sysread( $socket, $reply, $left, length $reply ) or die "the server is gone\n";
        $left -= $more;
    }
    return substr $reply, $head, $size;
}

sub _write ( $socket, $request ) {
    my $done = 0;
    while ( $done < length $request ) {
        my $more = syswrite( $socket, $request, length($request) - $done, $done ) or die "the server is gone: $!\n";
        $done += $more;
    }
    return;
}

1;
