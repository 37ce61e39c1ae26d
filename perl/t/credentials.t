use 5.016;
use strict;
use warnings;

use Config;
use File::Temp  ();
use FindBin     qw($Bin);
use Time::HiRes qw(sleep);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache locks server have_server in_child GENEROUS);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my $secret = 'correct-horse';
my $folder = File::Temp->newdir;
chmod 0755, "$folder";
open my $users, '>', "$folder/users" or die "users: $!";
print {$users} "app:$secret\n";
close $users or die "users: $!";
chmod 0644, "$folder/users";
my $guarded = server( qw(memcached -u), scalar getpwuid($>), qw(-l 127.0.0.1 -p PORT -U 0 -Y), "$folder/users" );

sub guarded {
    my (%settings) = @_;
    return cache( servers => [ $guarded->{address} ], %settings );
}

subtest 'a sub is called before each connection' => sub {
    my $calls = 0;
    my $cache = guarded( username => 'app', password => sub { $calls++; $secret } );
    is $calls, 0;
    ok $cache->set( key => 'value' );
    is $cache->get('key'), 'value';
    is $calls,             1;
};

subtest 'a sub may return both, and how long they last' => sub {
    my $both = sub {
        return { username => 'app', password => $secret, lifetime => 60 };
    };
    ok guarded( username => $both )->set( key => 'value' );
    ok guarded( password => $both )->set( key => 'value' );
    ok guarded( username => sub { 'app' }, password => sub { $secret } )->set( key => 'value' );
};

subtest 'a sub that fails is called again' => sub {
    my $returned;
    my $cache = guarded( username => 'app', password => sub { $returned->() } );
    for my $case (
        [ sub { die "the vault is sealed\n" },              'the function for password failed: the vault is sealed' ],
        [ sub { undef },                                    'it returned undef instead of a text, or of a hash' ],
        [ sub { [$secret] },                                'it returned a reference that is none to a hash' ],
        [ sub { { user => $secret } },                      'other keys than username, password and lifetime' ],
        [ sub { { password => $secret, lifetime => 'x' } }, 'a lifetime that is not a positive number of seconds' ],
        )
    {
        ( $returned, my $says ) = @{$case};
        ok !eval { $cache->get('key'); 1 };
        isa_ok $@, 'Pinyon::Error::Connect';
        like "$@",   qr/\Q$says/;
        unlike "$@", qr/\Q$secret/;
    }
    $returned = sub { $secret };
    ok $cache->set( key => 'value' );
};

subtest 'a forked child calls it, too' => sub {
    my $cache = guarded( username => 'app', password => sub { $secret } );
    ok $cache->set( key => 'value' );
    is in_child { $cache->get('key') }, 'value';
};

subtest 'in an event loop' => sub {
    plan skip_all => 'AnyEvent is not installed' if !eval { require Pinyon::AnyEvent; require AnyEvent; 1 };
    my $cache = Pinyon::AnyEvent::Cache->new(
        servers  => [ $guarded->{address} ],
        username => 'app',
        password => sub { $secret },
        timeout  => GENEROUS,
    );
    ok $cache->set( key => 'value' )->recv;
    is $cache->get('key')->recv, 'value';
};

subtest 'locks are held beyond the end of their credentials' => sub {
    plan skip_all => 'redis-server is not installed' if !have_server('redis-server');
    my $redis  = server( qw(redis-server --port PORT --save), q{}, '--dir', 'FOLDER' );
    my $tokens = 0;
    my $locks  = locks(
        url      => "redis://$redis->{address}",
        password => sub {
            my $token = 'token-' . ++$tokens;
            tell_redis( $redis, "ACL SETUSER app on resetpass >$token +\@all ~* &*" );
            return { username => 'app', password => $token, lifetime => 1 };
        }
    );
    my $lock = $locks->lock( 'a', ttl => 20 );
    while ( $tokens < 3 ) {
        sleep 0.05;
        ok $lock->is_held if $locks->is_locked('a');
    }
    $lock->release;
};

sub tell_redis {
    my ( $redis, $command ) = @_;
    my $socket = IO::Socket::INET->new( PeerAddr => $redis->{address} ) or die "redis: $!";
    print {$socket} "$command\r\n";
    return scalar <$socket>;
}

done_testing;
