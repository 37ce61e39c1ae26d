use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(sleep);

use Pinyon;
use Servers qw(eventually have_server in_child locks server);

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

my @redis = ( qw(redis-server --port 0 --unixsocket SOCKET --save), q{}, '--dir', 'FOLDER' );

# Uses locks, whatever becomes of it.
sub use_locks {
    my ($locks) = @_;
    return eval { $locks->try_lock('a'); 1 } || sleep 0.02;
}

subtest 'a server that is lost and found' => sub {
    my $server = server(@redis);
    my @events;
    my $locks = locks( url => "unix://$server->{address}", on_event => sub { push @events, @_ }, command_timeout => 2 );
    my $told  = sub {
        my ($kind) = @_;
        return eventually {
            use_locks($locks);
            grep { $_->{kind} eq $kind } @events
        };
    };
    ok $told->('connected');
    is $events[0]{level},  'debug';
    is $events[0]{server}, $server->{address};
    like $events[0]{message}, qr/is connected$/;
    ok !exists $events[0]{previous};
    $server->signal('KILL');
    waitpid $server->{pid}, 0;
    ok $told->('down');
    is $events[-1]{level}, 'warning';
    isa_ok $events[-1]{error}, 'Pinyon::Error::Connect';
    $server->start;
    ok $told->('up');
    cmp_ok $events[-1]{seconds}, '>', 0;
    is_deeply [ map { $_->{kind} } @events ],                              [qw(connected disconnected down up)];
    is_deeply [ @{ $locks->metrics }{qw(connects disconnects switches)} ], [ 2, 1, 0 ];
};

subtest 'without on_event, warnings are warned of' => sub {
    my $server = server( @redis, '--maxmemory-policy', 'allkeys-lru' );
    my @warned;
    local $SIG{__WARN__} = sub { push @warned, @_ };
    my $locks = locks( url => "unix://$server->{address}" );
    ok eventually { use_locks($locks); @warned };
    like $warned[0], qr/^pinyon: .*maxmemory-policy is allkeys-lru.*\n\z/;
    is @warned, 1;
};

subtest 'a sub that dies harms nothing' => sub {
    my $locks = locks( on_event => sub { die "of the test\n" } );
    my @warned;
    local $SIG{__WARN__} = sub { push @warned, @_ };
    ok eventually { $locks->try_lock('dies'); @warned };
    is $warned[0],                             "pinyon: on_event failed: of the test\n";
    is eval { locks( on_event => 'sub' ); 1 }, undef;
    like $@, qr/on_event is a reference to a sub/;
};

subtest 'what becomes of locks is counted' => sub {
    my ( $mine, $others ) = ( locks(), locks() );
    is $mine->metrics->{acquired}, 0;
    my $lock = $mine->lock('counted');
    ok !$others->try_lock('counted');
    is eval { $others->lock( 'counted', timeout => 2 ) }, undef;
    ok $lock->release;
    $lock = $mine->lock('counted');
    is $others->force_release('counted'), 1;
    ok eventually { $mine->metrics->{lost}{forced} };
    is_deeply [ @{ $mine->metrics }{qw(acquired released queued busy)} ],   [ 2, 1, 0, 0 ];
    is_deeply [ @{ $others->metrics }{qw(acquired released queued busy)} ], [ 0, 0, 1, 1 ];
    is_deeply $others->metrics->{errors}, { LockTimeout => 1 };
    is $mine->metrics->{waits}{count}, 2;
    cmp_ok $mine->metrics->{waits}{p50}, '>', 0;
    is_deeply in_child { $mine->metrics->{acquired} }, 0, 'a child begins at zero';
};

done_testing;
