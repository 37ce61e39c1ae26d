package Register;

# The register that enforces tokens. Its script is that of pinyon_verify/locks/register.py.

use 5.016;
use strict;
use warnings;

use File::Basename   qw(dirname);
use IO::Socket::UNIX ();

use Recorder qw(content);

my $source = dirname(__FILE__) . '/../../pinyon_verify/locks/register.py';
my ($script) = content($source) =~ /_SCRIPT = """(.*?)"""/s or die "$source has no script";

sub new {
    my ( $class, $path ) = @_;
    my $socket = IO::Socket::UNIX->new( Peer => $path ) or die "$path: $!";
    return bless { socket => $socket }, $class;
}

# Whether the write was accepted, and its position among all writes and reads.
sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $name, $token ) = @_;
    return $self->_ask( $name, $token );
}

# The token that was written last, 0 if there is none, and the position.
sub read {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $name, $token ) = @_;
    return $self->_ask( $name, $token, 'read' );
}

sub _ask {
    my ( $self, $name, @arguments ) = @_;
    my @parts   = ( 'EVAL', $script, 1, "register:$name", @arguments );
    my $request = join q{}, "*@{[scalar @parts]}\r\n", map { '$' . length($_) . "\r\n$_\r\n" } @parts;
    my $socket  = $self->{socket};
    syswrite( $socket, $request ) == length $request or die "the register: $!";
    my ( $head, $found, $order ) = map { scalar <$socket> } 1 .. 3;
    die "the register has answered $head" if $head ne "*2\r\n";
    return map { s/\A:(\d+)\r\n\z/$1/r + 0 } $found, $order;
}

1;
