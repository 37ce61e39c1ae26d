use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use File::Temp       ();
use IO::Socket::INET ();
use Test::More;
use Time::HiRes qw(sleep);

use Pinyon;
use Servers qw(eventually have_server server GENEROUS);
use Ways;

plan skip_all => 'memcached is not installed' if !have_server('memcached');

# Lists servers, as the endpoints of ElastiCache and Memorystore do. What it lists is in a file.
{

    package Endpoint;

    sub new {
        my ( $class, @servers ) = @_;
        my $self = bless { file => File::Temp->new, version => 0, owner => $$ }, $class;
        $self->change(@servers);
        my $listener = IO::Socket::INET->new( Listen => 16, LocalAddr => '127.0.0.1' ) or die "no port: $!";
        $self->{address} = '127.0.0.1:' . $listener->sockport;
        $self->{pid}     = fork // die "fork: $!";
        $self->_serve($listener) if !$self->{pid};
        return $self;
    }

    sub change {
        my ( $self, @servers ) = @_;
        my $listed = join q{ }, map { my ($port) = $_->{address} =~ /(\d+)\z/; "127.0.0.1|127.0.0.1|$port" } @servers;
        my $path   = $self->{file}->filename;
        $self->{version}++;
        open my $file, '>', "$path.new" or die "$path.new: $!";
        print {$file} "$self->{version}\n$listed\n";
        close $file;
        rename "$path.new", $path or die "$path: $!";
        return;
    }

    sub _serve {
        my ( $self, $listener ) = @_;
        local $SIG{CHLD} = 'IGNORE';
        my %greeting = ( version => "VERSION 1.6.22\r\n", mn => "MN\r\n" );
        while ( my $connection = $listener->accept ) {
            next if fork;
            $connection->autoflush(1);
            while ( my $line = <$connection> ) {
                $line =~ s/\s+\z//;
                open my $file, '<', $self->{file}->filename or last;
                my $listing = do { local $/ = undef; <$file> };
                print {$connection} $greeting{$line} // "CONFIG cluster 0 @{[length $listing]}\r\n$listing\r\nEND\r\n";
            }
            POSIX::_exit(0);
        }
        POSIX::_exit(0);
    }

    sub DESTROY {
        my ($self) = @_;
        return if $self->{owner} != $$;
        kill 'KILL', $self->{pid};
        waitpid $self->{pid}, 0;
    }
}

my @servers  = map { server( 'memcached', '-u', scalar getpwuid($>), qw(-l 127.0.0.1 -p PORT -U 0) ) } 1 .. 2;
my $endpoint = Endpoint->new( $servers[0] );
my @all      = sort map { $_->{address} } @servers;

for my $way ( Ways::Blocking->new, Ways::Coro->new, Ways::AnyEvent->new, Ways::Future->new ) {
    my $name = ref($way) =~ s/.*:://r;
    if ( my $missing = $way->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    subtest "servers that are added are used, $name" => sub {
        my @events;
        $endpoint->change( $servers[0] );
        my $cache = $way->cache(
            servers            => [ $endpoint->{address} ],
            discovery          => 'config',
            discovery_interval => 0.1,
            timeout            => GENEROUS,
            connect_timeout    => GENEROUS,
            on_event           => sub { push @events, $_[0]{kind} },
        );
        my $asked = sub {
            my ( $method, @arguments ) = @_;
            return $way->got( $way->wait_for( sub { $cache->$method(@arguments) } ) );
        };
        is $asked->( set => 'key', 'value' ), 1;
        is_deeply [ $cache->servers ], [ $servers[0]{address} ], 'one at first';
        $endpoint->change(@servers);
        ok eventually { $way->pause(0.01); $asked->( get => 'key' ); ( () = $cache->servers ) == 2 }, 'then two';
        is_deeply [ sort $cache->servers ], \@all;
        ok eventually {
            $asked->( get => 'key' );
            grep { $_ eq 'servers' } @events
        }, 'an event tells';
        my %pairs = map { ( "key:$_" => $_ ) } 1 .. 40;
        $asked->( 'set_multi', map { [ $_ => $pairs{$_} ] } sort keys %pairs );
        is_deeply $asked->( 'get_multi', sort keys %pairs ), \%pairs, 'many keys';
        my $stats = $asked->('stats');
        is scalar( grep { $stats->{$_}{curr_items} } @all ), 2, 'on both';
    };
}

done_testing;
