use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(have_server memcached redis GENEROUS);

plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server);
plan skip_all => "$_ does not load"    for grep { !eval "require $_" } qw(EV Coro Coro::AnyEvent);
plan skip_all => 'Test::LeakTrace is not installed' if !eval { require Test::LeakTrace; Test::LeakTrace->import; 1 };

require Pinyon::AnyEvent;
require Pinyon::Coro;

my @generous = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my @servers  = ( servers => [ memcached()->{address} ], @generous );
my $url      = 'unix://' . redis()->{address};
my $called   = Pinyon::AnyEvent::Cache->new(@servers);
my $cache    = Pinyon::Coro::Cache->new(@servers);
my $locks    = Pinyon::Coro::Locks->new( $url, namespace => "k$$", @generous[ 2, 3 ] );
my $asked    = Pinyon::AnyEvent::Locks->new( $url, namespace => "m$$", @generous[ 2, 3 ] );

$cache->set( there  => 'value' );
$cache->set( deep   => { list => [ 1, 2.5, undef ] } );
$cache->set( broken => [1] );
$cache->append( broken => 'x' );

my $old       = Pinyon::AnyEvent::Cache->new( @servers, namespace => 'old:', serializer => 'storable' );
my $migrating = Pinyon::AnyEvent::MigratingCache->new( $old, $called );

my %use = (
    'a callback' => sub {
        my $done = AE::cv();
        $called->get( there => cb => sub { $done->send( $_[0] ) } );
        $done->recv;
    },
    'a condvar' => sub { my $value = $called->get('deep')->recv },
    'a failure' => sub {
        eval { $called->get('broken')->recv }
    },
    'a wrong key' => sub {
        eval { $called->get('a b')->recv }
    },
    'many'            => sub { my $found = $called->get_multi(qw(there deep missing))->recv },
    'a cancelled one' => sub {
        my $operation = $called->get( there => cb => sub { } );
        $operation->cancel;
        $called->get('there')->recv;
    },
    'many, cancelled' => sub {
        my $operation = $called->get_multi( qw(there deep missing), cb => sub { } );
        $operation->cancel;
        $called->get('there')->recv;
    },
    'one of many that cannot be read' => sub {
        eval { $called->get_multi(qw(there broken))->recv };
        $@ = q{};
    },
    'one of many that makes no sense' => sub {
        eval { $called->set_multi( [ there => 'value' ], ['there'] )->recv };
        eval { $called->get_multi( 'there', 'a b' )->recv };
        $@ = q{};
    },
    'tags' => sub {
        my @tags = ( tags => [ 'user:7', 'page' ] );
        $called->set( tagged => 'value', 60, @tags )->recv;
        $called->set_multi( [ tagged => 'value', 60 ], [ other => 1, @tags ], @tags )->recv;
        $called->lease('tagged')->recv;
        $called->invalidate_tags('user:7')->recv;
        $called->get_or_set( tagged => sub { 'made' }, ttl => 60, @tags )->recv;
        eval { $called->set( tagged => 'value', 60, tags => [ 'user:7', {} ] )->recv };
        $called->delete_multi(qw(tagged other))->recv;
        $@ = q{};
    },
    'a batch' => sub {
        my $batch = $called->quiet;
        $batch->set( there => 'value' );
        eval { $batch->set('there') };
        $@ = q{};
        $batch->finish->recv;
    },
    'migrating' => sub {
        $old->set( moved => [1] )->recv;
        my $value = $migrating->get('moved')->recv;
        $migrating->delete('moved')->recv;
        $old->set( moved => bless [], 'Some::Object' )->recv;
        $value = $migrating->get_multi(qw(moved there missing))->recv;
        $migrating->delete('moved')->recv;
    },
    'made by a callback' => sub {
        $called->get_or_set( made => sub { 'made' }, ttl => 60 )->recv;
        $called->delete('made')->recv;
    },
    'made behind a caller' => sub {
        $called->set( made => 'old' )->recv;
        $called->delete( 'made', stale => 60 )->recv;
        $called->get_or_set( made => sub { 'new' }, ttl => 60, stale => 60, refresh => 'behind' )->recv;
        Coro::AnyEvent::sleep(0.001) while $called->get('made')->recv ne 'new';
        $called->delete( 'made', stale => 60 )->recv;
        my $promise = AE::cv();
        $called->get_or_set( made => sub { $promise }, ttl => 60, stale => 60, soft_timeout => 0.001 )->recv;
        $promise->croak('no');
        $called->get('made')->recv;
        $called->delete('made')->recv;
    },
    'made behind a coroutine' => sub {
        $cache->set( made => 'old' );
        $cache->delete( 'made', stale => 60 );
        $cache->get_or_set( made => sub { 'new' }, ttl => 60, stale => 60, refresh => 'behind' );
        Coro::AnyEvent::sleep(0.001) while $cache->get('made') ne 'new';
        $cache->delete('made');
    },
    'many made by a callback' => sub {
        my $two = $called->get_or_set_multi(
            [qw(made other)],
            sub {
                return { map { $_ => 'made' } @_ };
            },
            ttl => 60
        );
        my $one = $called->get_or_set_multi( [qw(other)], sub { die "no\n" }, ttl => 60 );
        $_->recv for $two, $one;
        $called->delete_multi(qw(made other))->recv;
        $called->get_or_set_multi( ['never'], sub { die "no\n" }, ttl => 60, cb => sub { } );
        $called->get('there')->recv;
    },
    'the outcome of a batch' => sub {
        eval {
            $called->quiet( sub { $_[0]->add( there => 1 ) } )->recv;
        };
        $@ = q{};
    },
    'a coroutine' =>
        sub { my $value = $cache->get('there'); my @none = $cache->get('missing'); $cache->set( there => 'value' ) },
    'an error in it' => sub {
        eval { $cache->get('broken') }
    },
    'many in it' => sub { my $found = $cache->get_multi(qw(there deep missing)) },
    'made in it' => sub {
        $cache->get_or_set( made => sub { $cache->get('there') }, ttl => 60 );
        $cache->delete('made');
    },
    'many made in it' => sub {
        my $found = $cache->get_or_set_multi( [qw(made there)], sub { return { made => $cache->get('there') } }, ttl => 60 );
        $cache->delete('made');
    },
    'a lease' => sub { my $lease = $cache->lease('leased'); $lease->give_back },
    'a lock'  => sub { $locks->lock('name')->release },
    'a scope' => sub {
        { my $lock = $locks->lock('scoped') }
        $locks->is_locked('scoped');
    },
    'a promised lock' => sub {
        $asked->synchronized( name => sub { 1 } )->recv;
    },
);

for my $name ( ( sort keys %use ) x 5 ) {
    $use{$name}->();
}

# What is made once is made in the first count.
Test::LeakTrace::leaked_count( sub { $called->get('there')->recv } );
for my $name ( sort keys %use ) {
    no_leaks_ok( \&{ $use{$name} }, $name );
}

# A coroutine that is thrown at leaves nothing behind either. (Coro itself leaks where coroutines are cancelled, whatever
# they wait for.)
my $thrown_at = sub {
    my @all = map {
        Coro::async(
            sub {
                eval { $cache->get('there') }
            }
        )
    } 1 .. 10;
    Coro::cede();
    $_->throw("thrown\n") for @all;
    $_->join for @all;
    $cache->get('there');
};
$thrown_at->() for 1 .. 50;
my $leaked = Test::LeakTrace::leaked_count( sub { $thrown_at->() for 1 .. 20 } );
cmp_ok $leaked, '<', 20, "thrown at 200 times: $leaked left";

done_testing;
