package Servers;

# Real servers, started by the tests on sockets of their own, and ways to wait for what must happen.

use 5.016;
use strict;
use warnings;

use Cwd              qw(abs_path);
use Exporter         qw(import);
use File::Basename   qw(dirname);
use File::Path       ();
use File::Temp       ();
use IO::Socket::INET ();
use IO::Socket::UNIX ();
use POSIX            ();
use Time::HiRes      qw(sleep time);

our @EXPORT_OK =
    qw(cache locks memcached redis server eventually in_child program vectors root silent_server have_server GENEROUS);

# Seconds within which something that must happen does, on slow machines too.
use constant GENEROUS => 60;

my $owner = $$;
my ( %started, @running );

# The checkout around the distribution; undef where there is none.
sub root {
    my $root = abs_path( dirname(__FILE__) . '/../../..' );
    return -d "$root/vectors" ? $root : undef;
}

sub vectors {
    my ($name) = @_;
    require JSON::PP;
    open my $file, '<:raw', root() . "/vectors/$name.json" or die "vectors/$name.json: $!";
    local $/ = undef;
    return JSON::PP->new->utf8->allow_bignum->decode( scalar <$file> );
}

sub have_server {
    my ($program) = @_;
    return grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

# A client with generous limits. Without servers, of the one memcached of this test.
sub cache {
    my (%settings) = @_;
    $settings{servers} ||= [ memcached()->{address} ];
    return Pinyon::Cache->new( timeout => GENEROUS, connect_timeout => GENEROUS, %settings );
}

sub locks {
    my (%settings) = @_;
    my $url = delete $settings{url} || 'unix://' . redis()->{address};
    return Pinyon::Locks->new(
        $url,
        namespace       => "t$$",
        timeout         => GENEROUS,
        command_timeout => GENEROUS,
        ttl             => GENEROUS,
        connect_timeout => GENEROUS,
        %settings
    );
}

sub memcached { return $started{memcached} ||= own_memcached() }

# One that a test may stop.
sub own_memcached { return server( qw(memcached -u), scalar getpwuid($>), qw(-s SOCKET -t 2) ) }
sub redis { return $started{redis} ||= server( qw(redis-server --port 0 --unixsocket SOCKET --save), q{}, '--dir', 'FOLDER' ) }

# A server as a process. SOCKET or PORT is where it listens, FOLDER a directory of its own.
sub server {
    my @command = @_;
    my $folder  = File::Temp::tempdir( 'pinyonXXXXXX', TMPDIR => 1 );
    my $port    = ( grep { $_ eq 'PORT' } @command ) ? _free_port()      : undef;
    my $address = $port                              ? "127.0.0.1:$port" : "$folder/socket";
    for (@command) {
        s/\ASOCKET\z/$address/;
        s/\APORT\z/$port/;
        s/\AFOLDER\z/$folder/;
    }
    my $self = bless { folder => $folder, port => $port, address => $address, command => \@command }, 'Servers::Server';
    push @running, $self;
    return $self->start;
}

# The ports of servers are below the system's range for outgoing connections, so that none of them takes the port of a server
# that is away. Each process owns some, and listens on the first of them to reserve them all. Tests in other languages do so.
my ( $first_port, $ports, $processes ) = ( 12_000, 100, 100 );
my ( $reserved, $next_port );

# A port that is free, and that other tests leave alone.
sub _free_port {
    for ( 0 .. $processes - 1 ) {
        last if $reserved;
        $next_port = $first_port + $ports * ( ( $$ + $_ ) % $processes );
        $reserved  = _listener( LocalPort => $next_port );
    }
    $reserved or die "no port: $!";
    for ( 1 .. $ports ) {
        $next_port += $next_port % $ports == $ports - 1 ? 2 - $ports : 1;
        return $next_port if _listener( LocalPort => $next_port, ReuseAddr => 1 );
    }
    die "this process has servers on all of its $ports ports";
}

sub _listener {
    my (%place) = @_;
    return IO::Socket::INET->new( Listen => 16, LocalAddr => '127.0.0.1', %place );
}

# Whether the block comes true in time.
sub eventually(&) {    ## no critic (ProhibitSubroutinePrototypes)
    my ($block) = @_;
    my $give_up = time + GENEROUS;
    while ( time < $give_up ) {
        my $found = $block->();
        return $found if $found;
        sleep 0.005;
    }
    return;
}

# Runs the block in a child, and returns what it returned, a text.
sub in_child(&) {    ## no critic (ProhibitSubroutinePrototypes)
    my ($block) = @_;
    pipe my $reader, my $writer or die "pipe: $!";
    my $child = fork // die "fork: $!";
    if ( !$child ) {
        close $reader;
        my $said = eval { $block->() };
        print {$writer} defined $said ? $said : "died: $@";
        close $writer;
        POSIX::_exit(0);
    }
    close $writer;
    my $said = do { local $/ = undef; <$reader> };
    waitpid $child, 0;
    return $said;
}

# Runs a program of its own, whose end ends all of its frames; returns what it printed and warned, and its status.
sub program {
    my ( $code, @arguments ) = @_;
    my $file = File::Temp->new( SUFFIX => '.pl' );
    print {$file} $code;
    close $file;
    my $pid = open( my $output, '-|' ) // die "fork: $!";
    if ( !$pid ) {
        open STDERR, '>&', \*STDOUT;
        exec( $^X, ( map { "-I$_" } @INC ), "$file", @arguments ) or POSIX::_exit(127);
    }
    my $said = do { local $/ = undef; <$output> };
    waitpid $pid, 0;
    return ( $said, $? );
}

# Accepts connections, answers their greeting, and nothing after it.
sub silent_server {
    my $listener = _listener() or die "no port: $!";
    my $child    = fork // die "fork: $!";
    if ( !$child ) {
        local $SIG{CHLD} = 'IGNORE';
        while ( my $connection = $listener->accept ) {
            next if fork;
            $connection->autoflush(1);
            my %answer = ( version => "VERSION 1.6.18\r\n", mn => "MN\r\n" );
            while ( my $line = <$connection> ) {
                print {$connection} delete $answer{ $line =~ s/\s+\z//r } // q{};
            }
            POSIX::_exit(0);
        }
        POSIX::_exit(0);
    }
    my $self = bless { pid => $child, address => '127.0.0.1:' . $listener->sockport }, 'Servers::Server';
    push @running, $self;
    return $self;
}

END {
    if ( $$ == $owner ) {
        my $status = $?;
        $_->stop for @running;
        $? = $status;
    }
}

package Servers::Server;

sub start {
    my ($self) = @_;
    $self->{pid} = fork // die "fork: $!";
    if ( !$self->{pid} ) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        exec { $self->{command}[0] } @{ $self->{command} } or POSIX::_exit(127);
    }
    Servers::eventually( sub { $self->accepts } ) or die "$self->{command}[0] does not start";
    return $self;
}

sub accepts {
    my ($self) = @_;
    return $self->{port}
        ? IO::Socket::INET->new( PeerAddr => $self->{address} )
        : IO::Socket::UNIX->new( Peer     => $self->{address} );
}

sub signal {
    my ( $self, $name ) = @_;
    return kill $name, $self->{pid};
}

# Returns when it has stopped, which is a while after the signal.
sub pause {
    my ($self) = @_;
    $self->signal('STOP');
    waitpid $self->{pid}, POSIX::WUNTRACED();
    return;
}

sub resume {
    my ($self) = @_;
    $self->signal('CONT');
    return;
}

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    kill 'KILL', $pid;
    waitpid $pid, 0;
    File::Path::remove_tree( $self->{folder} ) if $self->{folder};
    return;
}

1;
