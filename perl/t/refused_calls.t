use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(have_server memcached redis GENEROUS);

# In an event loop, a call with `cb` calls back whatever is wrong with it.

for my $needed (qw(memcached redis-server)) {
    plan skip_all => "$needed is not installed" if !have_server($needed);
}
plan skip_all => 'AnyEvent is not installed' if !eval { require AnyEvent; require Pinyon::AnyEvent; 1 };

my %patient = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my $cache   = Pinyon::AnyEvent::Cache->new( servers => memcached()->{address}, namespace => 'refused:', %patient );
my $locks   = Pinyon::AnyEvent::Locks->new( 'unix://' . redis()->{address}, %patient );

# A serializer that shows flags, with which others cannot read what it stores.
package Unread {
    sub new  { return bless {}, shift }
    sub dump { return ( $_[1], 77 ) }
    sub load { return $_[1] }
}
my $foreign = Pinyon::AnyEvent::Cache->new(
    servers    => memcached()->{address},
    namespace  => 'refused:',
    serializer => Unread->new,
    %patient
);

subtest 'refused calls call back' => sub {
    my $called = 0;
    local $SIG{__DIE__} = sub { fail "the handler hears of $_[0]" };
    my @calls = (
        [ 'get of a key with a space', sub { $cache->get( 'a b', cb => $_[0] ) }, 'InvalidKey' ],
        [ 'get of undef',              sub { $cache->get( undef, cb => $_[0] ) }, 'UnsupportedType' ],
        [
            'set of code',
            sub {
                $cache->set( a => { b => sub { } }, cb => $_[0] );
            },
            'UnsupportedType'
        ],
        [ 'set with a ttl that is none',      sub { $cache->set( a => 1, 'soon', cb => $_[0] ) },      'Usage' ],
        [ 'incr with an option that is none', sub { $cache->incr( 'a', 1, steps => 1, cb => $_[0] ) }, 'Usage' ],
        [ 'get_multi',                        sub { $cache->get_multi( 'a b', cb => $_[0] ) },         'InvalidKey' ],
        [ 'set_multi',                        sub { $cache->set_multi( a => cb => $_[0] ) },           'Usage' ],
        [
            'get_or_set',
            sub {
                $cache->get_or_set( 'a b', sub { 1 }, cb => $_[0] );
            },
            'InvalidKey'
        ],
        [
            'get_or_set_multi',
            sub {
                $cache->get_or_set_multi( [ 'a', 'a b' ], sub { {} }, cb => $_[0] );
            },
            'InvalidKey'
        ],
        [ 'get_or_set_multi without a sub', sub { $cache->get_or_set_multi( ['a'], undef, cb => $_[0] ) }, 'Usage' ],
        [
            'get_or_set_multi whose sub makes none',
            sub {
                $cache->get_or_set_multi( ['a'], sub { 5 }, cb => $_[0] );
            },
            'UnsupportedType'
        ],
        [ 'lease',                            sub { $cache->lease( 'a b', cb => $_[0] ) },             'InvalidKey' ],
        [ 'lock without a name',              sub { $locks->lock( [], cb => $_[0] ) },                 'InvalidName' ],
        [ 'lock with an option that is none', sub { $locks->lock( 'a', patience => 1, cb => $_[0] ) }, 'Usage' ],
    );
    for my $case (@calls) {
        my ( $name, $call, $kind ) = @{$case};
        my $over      = AE::cv();
        my $operation = $call->( sub { $over->send( $_[1] ) } );
        my $error     = $over->recv;
        isa_ok $error, "Pinyon::Error::$kind", "the error of $name";
        is $error->file, __FILE__, 'with the caller\'s file';
    }
    for my $call (@calls) {
        next if $call->[0] eq 'get_or_set';
        $call->[1]->( sub { $called++ } )->cancel;
    }
    $cache->get('turn')->recv;
    $locks->is_locked('turn')->recv;
    is $called, 0, 'unless they are cancelled';
};

subtest 'errors of values name the line of the call' => sub {
    $foreign->set( $_ => 'x', 1000 )->recv for qw(one two);
    for my $call (
        sub { $cache->get('one')->recv },
        sub { $cache->get_multi(qw(one two))->recv },
        sub { $cache->gets_multi(qw(one two))->recv },
        )
    {
        ok !eval { $call->(); 1 };
        is $@->file, __FILE__;
    }
};

subtest 'a lock that nothing keeps is warned of' => sub {
    my @warned;
    local $SIG{__WARN__} = sub { push @warned, @_ };
    my $waiting = Pinyon::Locks->new( 'unix://' . redis()->{address} );
    $waiting->lock('void');
    $waiting->try_lock('void');
    $locks->lock('void');
    $locks->lock( 'void', cb => sub { } );
    { no warnings 'void'; $waiting->lock('void'); }
    is @warned, 2;
    like $warned[0], qr/^This lock is released at once.*\Q@{[ __FILE__ ]}\E line \d+/;
};

subtest 'references among servers' => sub {
    for my $server ( [ 'a:1', 2 ], { address => 'a:1' } ) {
        ok !eval { Pinyon::Cache->new( servers => [$server] ); 1 };
        isa_ok $@, 'Pinyon::Error::InvalidServers';
        like $@->message, qr/127\.0\.0\.1:11211:2.*not a reference to/;
    }
};

subtest 'errors are ASCII' => sub {
    my $waiting = Pinyon::Cache->new( servers => memcached()->{address} );
    for my $key ( "\x{263a} x", 'k' x 300, "\x{e9} x" ) {
        ok !eval { $waiting->get($key); 1 };
        unlike "$@", qr/[^\x00-\x7f]/, "$@";
    }
};

done_testing;
