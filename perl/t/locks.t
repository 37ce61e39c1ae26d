use 5.016;
use strict;
use warnings;

use Config;
use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(sleep time ualarm);
use if $Config{useithreads}, 'threads';

use Pinyon;
use Servers qw(eventually have_server in_child locks redis server);

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

my $locks = locks();
my $other = locks();

# What the block died of.
sub died_of(&) {    ## no critic (ProhibitSubroutinePrototypes)
    my ($block) = @_;
    return eval { $block->(); 1 } ? undef : $@;
}

subtest 'a guard holds a lock until it goes out of scope' => sub {
    {
        my $lock = $locks->lock('account:1');
        ok $lock->is_held;
        cmp_ok $lock->token,     '>', 0;
        cmp_ok $lock->remaining, '>', 0;
        is $lock->check,                  $lock, 'check returns the lock';
        is $other->try_lock('account:1'), undef, 'others do not get it';
        ok $other->is_locked('account:1');
        is_deeply [ $lock->names ], ['account:1'];
    }
    ok !$other->is_locked('account:1');
};

subtest 'the end of a scope leaves the errors of Perl alone' => sub {
    my $error = died_of {
        my $lock = $locks->lock('erring');
        die "the block's own\n";
    };
    is $error, "the block's own\n";
    ok !$locks->is_locked('erring');
    local $? = 5;
    local $! = 2;
    { my $lock = $locks->lock('erring'); }
    is $? + 0, 5;
    is $! + 0, 2;
};

subtest 'several names are locked together or not at all' => sub {
    my $lock = $locks->lock( [qw(left right)] );
    is $other->try_lock( [qw(right third)] ), undef;
    ok !$other->is_locked('third');
    is $lock->release, 1;
    is $lock->release, q{}, 'once only';
    ok !$lock->is_held;
    my $error = died_of { $lock->check };
    isa_ok $error, 'Pinyon::Error::LockLost';
    like $error, qr/released/;
};

subtest 'a block of code' => sub {
    is $locks->synchronized( report => sub { my ($lock) = @_; $lock->token ? 'done' : 'not' } ), 'done';
    is_deeply [ $locks->synchronized( report => sub { return ( 1, 2, 3 ) } ) ], [ 1, 2, 3 ], 'in list context';
    ok !$locks->is_locked('report');
    my $error = died_of {
        $locks->synchronized( report => sub { die "inside\n" } )
    };
    is $error, "inside\n";
    ok !$locks->is_locked('report');
    $error = died_of {
        $locks->synchronized( report => sub { $other->force_release('report') } )
    };
    isa_ok $error, 'Pinyon::Error::LockLost', 'a lock that was lost inside';
};

subtest 'waiting for a lock' => sub {
    my $lock  = $other->lock('busy');
    my $error = died_of { $locks->lock( 'busy', timeout => 2 ) };
    isa_ok $error, 'Pinyon::Error::LockTimeout';
    is $error->file, __FILE__;
    $error = died_of { $locks->lock( 'busy', timeout => 0 ) };
    isa_ok $error, 'Pinyon::Error::LockTimeout', 'without waiting';
    my $child = fork;
    if ( !$child ) {
        my $waited = locks( namespace => "t@{[getppid]}" )->lock('busy');
        $waited->release;
        POSIX::_exit(0);
    }
    ok eventually { $other->waiting('busy') == 1 }, 'one waits';
    my ($status) = $other->status('busy');
    is $status->{name},                'busy';
    is $status->{token},               $lock->token;
    is scalar @{ $status->{waiting} }, 1;
    is $other->owner('busy'),          $status->{holder};
    $lock->release;
    waitpid $child, 0;
    is $?, 0, 'and gets it';
};

subtest 'a handler that dies ends the wait' => sub {
    my $lock = $other->lock('signalled');
    local $SIG{ALRM} = sub { die "enough\n" };
    ualarm 200_000;
    is died_of { $locks->lock('signalled') }, "enough\n";
    is eventually { $other->waiting('signalled') == 0 } ? 'gone' : 'waits', 'gone', 'it waits no more';
    $lock->release;
    ok $locks->try_lock('signalled');
};

subtest 'the lock of the caller himself' => sub {
    my $lock  = $locks->lock('own');
    my $error = died_of { $locks->lock('own') };
    isa_ok $error, 'Pinyon::Error::AlreadyHeld';
    my $again = $locks->lock( 'own', reentrant => 1 );
    $again->release;
    ok $lock->is_held, 'a reentrant lock';
};

subtest 'ttls' => sub {
    my $lock = $locks->lock( 'fading', ttl => 30, renew => 0 );
    cmp_ok $lock->remaining, '<=', 30;
    is $lock->extend(600), 1;
    cmp_ok $lock->remaining, '>', 100;
    my $short = $locks->lock( 'short', ttl => 0.2, renew => 0 );
    ok eventually { $short->is_lost },             'it ends by itself';
    ok eventually { !$locks->is_locked('short') }, 'on the server a little later';
    is $short->release, q{};
    isa_ok died_of { $short->check }, 'Pinyon::Error::LockLost';
    my $renewed = $locks->lock( 'renewed', ttl => 6 );
    sleep 6.5;
    ok $renewed->is_held, 'a lock is renewed while the program does something else';
};

subtest 'a lock that is lost' => sub {
    my @lost;
    my $lock = $locks->lock( 'taken', ttl => 6, on_lost => sub { push @lost, @_ } );
    is $other->force_release( 'taken', token => 1 ), 0, 'only from its holder';
    is $other->force_release( 'taken', token => $lock->token ), 1;
    ok eventually { $lock->is_lost && @lost }, 'its holder learns it';
    is_deeply \@lost, [$lock], 'and is told';
    $lock->on_lost( sub { push @lost, 'late' } );
    is $lost[1], 'late', 'at once where it is lost already';
};

subtest 'the end of a scope that cannot release' => sub {
    my $server = server( qw(redis-server --port 0 --unixsocket SOCKET --save), q{}, '--dir', 'FOLDER' );
    my $closed = locks( url => "unix://$server->{address}", command_timeout => 5 );
    my @warned;
    local $SIG{__WARN__} = sub {
        push @warned, @_;
        eval { die "inside\n" }
    };
    my $lock = $closed->lock( [qw(kept also)] );
    $server->stop;
    eval { die "before\n" };
    local $? = 5;
    local $! = 2;
    undef $lock;
    is $@,             "before\n";
    is $? + 0,         5;
    is $! + 0,         2;
    is scalar @warned, 1;
    like $warned[0], qr/\Apinyon: the lock on kept also is not released yet: .+\n\z/, 'warns';
};

subtest 'options, names and objects' => sub {
    my %options = ( ttl => undef, timeout => undef, renew => undef, reentrant => undef, max_hold => undef, on_lost => undef );
    my @names   = qw(one two);
    my $lock    = $locks->lock( \@names, %options );
    @names = ();
    is_deeply [ $lock->names ], [qw(one two)], 'names are kept';
    is scalar( my @many = $lock->names ), 2;
    isa_ok $lock, 'Pinyon::Lock';
    $lock->{own} = 'field';
    is $lock->{own},             'field', 'an object has room for fields';
    is $lock->is_released,       q{};
    is $lock->release,           1;
    is $lock->is_released,       1;
    is $lock->is_lost,           q{}, 'what was released is not lost';
    is $lock->token > 0 ? 1 : 0, 1;
    my $name = 'of a sub';
    my $code = sub {
        return $locks->synchronized( $name, sub { return wantarray ? 'list' : 'scalar' }, ttl => 5, ttl => 60 );
    };
    is_deeply [ $code->() ], ['list'];
    is scalar $code->(), 'scalar';
    isa_ok died_of { $locks->lock( 'a', on_lost => 'no sub' ) }, 'Pinyon::Error::Usage';
    ok !$locks->is_locked('a'), 'and nothing stays locked';
    is_deeply [ $other->try_lock('b') ? 'got' : () ], ['got'];
    my $held = $locks->lock('c');
    is_deeply [ $other->try_lock('c') ], [], 'nothing, in list context';
    isa_ok died_of { Pinyon::Lock::release( bless {}, 'Pinyon::Lock' ) }, 'Pinyon::Error::Usage';
};

subtest 'an object of locks stays as long as its locks' => sub {
    my $lock = locks()->lock('alone');
    ok $lock->is_held;
    undef $lock;
    ok !$locks->is_locked('alone');
};

subtest 'conditions' => sub {
    my $lock  = $locks->lock('queue');
    my $child = fork;
    if ( !$child ) {
        my $theirs = locks( namespace => "t@{[getppid]}" );
        my $held   = $theirs->lock('queue');
        $theirs->execute( 'SET', 'item', 1 );
        $held->notify;
        $held->release;
        POSIX::_exit(0);
    }
    is $lock->wait_for( sub { $locks->execute( 'GET', 'item' ) }, 60 ), 1, 'what another holder did';
    waitpid $child, 0;
    is $lock->wait(0.05), q{}, 'nobody notifies';
    is $lock->wait(0),    q{}, 'without waiting';
    ok $lock->is_held;
    is $lock->notify,     0;
    is $lock->notify_all, 0;
    isa_ok died_of { $lock->notify(0) }, 'Pinyon::Error::Usage';
};

subtest 'commands' => sub {
    is $locks->execute( 'SET', 'visits', 41 ), 'OK';
    is $locks->execute( 'INCR', 'visits' ), 42;
    is_deeply $locks->execute( 'LRANGE', 'nothing', 0, -1 ), [];
    is $locks->execute( 'GET', 'nothing' ), undef;
    isa_ok died_of { $locks->execute('NONSENSE') }, 'Pinyon::Error::Server';
    is $locks->server, redis()->{address};
};

subtest 'a fork does not hold what its parent holds' => sub {
    my $lock = $locks->lock('inherited');
    my $said = in_child {
        my $held = $lock->is_held ? 'held' : 'not held';
        undef $lock;
        return $held;
    };
    is $said, 'not held';
    ok $lock->is_held, 'and its end releases nothing';
    ok $other->is_locked('inherited');
};

SKIP: {
    skip 'this perl has no threads', 1 if !$Config{useithreads};
    subtest 'threads' => sub {
        my $lock = $locks->lock('threads');
        my $said = threads->create(
            sub {
                return join q{ }, $locks->try_lock('threads') ? 'got' : 'refused', $locks->lock('of the thread')->is_held;
            }
        )->join;
        is $said, 'refused 1';
        ok $lock->is_held, 'the end of a thread releases nothing of another';
    };
}

subtest 'mistakes' => sub {
    for (
        [ sub { $locks->lock(q{}) },                     'InvalidName',     qr/./ ],
        [ sub { $locks->lock(undef) },                   'UnsupportedType', qr/the name of a lock is a string, not undef/ ],
        [ sub { $locks->lock( [] ) },                    'Usage',           qr/./ ],
        [ sub { $locks->lock( 'a', ttl => 0 ) },         'Usage',           qr/ttl is a number of seconds above 0/ ],
        [ sub { $locks->lock( 'a', time => 5 ) },        'Usage',           qr/lock has no option "time"/ ],
        [ sub { $locks->try_lock( 'a', timeout => 5 ) }, 'Usage',           qr/try_lock does not wait/ ],
        [ sub { $locks->synchronized('a') },             'Usage',           qr/a reference to a sub/ ],
        [ sub { Pinyon::Locks->new( 'redis://localhost', time_out => 1 ) }, 'Usage', qr/did you mean "timeout"/ ],
        [ sub { Pinyon::Locks->new('http://localhost') },                   'Usage', qr/./ ],
        )
    {
        my ( $code, $kind, $says ) = @{$_};
        my $error = died_of { $code->() };
        isa_ok $error, "Pinyon::Error::$kind";
        like $error, $says;
    }
    my $dead = Pinyon::Locks->new('redis://127.0.0.1:1');
    isa_ok died_of { $dead->lock('a') }, 'Pinyon::Error::Connect';
    $other->close;
    isa_ok died_of { $other->lock('a') }, 'Pinyon::Error::Closed';
};

done_testing;
