use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache have_server silent_server);

plan skip_all => 'memcached is not installed'       if !have_server('memcached');
plan skip_all => 'Test::LeakTrace is not installed' if !eval { require Test::LeakTrace; Test::LeakTrace->import; 1 };

my $cache   = cache();
my $dead    = cache( servers => ['127.0.0.1:1'], connect_timeout => 1 );
my $counted = 0;
my $heard   = cache( servers => ['127.0.0.1:1'], on_event => sub { $counted++ } );
$cache->set( there  => 'value' );
$cache->set( deep   => { list => [ 1, 2.5, undef, \1, 'größer' ], map => {} } );
$cache->set( number => 5 );
$cache->set( broken => [1] );
$cache->append( broken => 'x' );
my $storable = cache( serializer => 'storable' );

my $old       = cache( namespace => 'old:', serializer => 'storable' );
my $migrating = Pinyon::MigratingCache->new( $old, $cache );

my %use = (
    'get'          => sub { my $value = $cache->get('there') },
    'a miss'       => sub { my $value = $cache->get('missing'); my @none = $cache->get('missing') },
    'set'          => sub { $cache->set( there => 'value', 60 ) },
    'a long value' => sub { $cache->set( long => 'x' x 100_000 ); my $value = $cache->get('long') },
    'data'         => sub { my $value = $cache->get('deep'); $cache->set( deep => $value ) },
    'pairs'        => sub { my $pair = $cache->gets('there'); $pair = $cache->get_with_ttl('there'); $cache->meta('there') },
    'counters'     => sub { $cache->incr('number'); $cache->incr('missing') },
    'many'         => sub { my $found = $cache->get_multi(qw(there deep missing)); $cache->gets_multi('there') },
    'storing many' => sub { my @done  = $cache->set_multi( [ there => 'value' ], [ deep => [1] ] ); $cache->delete_multi('x') },
    'tags'         => sub {
        my @tags = ( tags => [ 'user:7', 'page' ] );
        $cache->set( tagged => 'value', 60, @tags );
        $cache->set_multi( [ tagged => 'value', 60 ], [ other => 1, @tags ], @tags );
        $cache->get_or_set( tagged => sub { 'made' }, ttl => 60, @tags );
        $cache->invalidate_tags( @{ $tags[1] } );
        $cache->get_or_set_multi( ['tagged'], sub { { tagged => 'made' } }, ttl => 60, @tags );
        $cache->lease('tagged');
        eval { $cache->set( tagged      => 'value', 60, tags => [ 'user:7', {} ] ) };
        eval { $cache->set( 'two words' => 'value', 60, @tags ) };
        $cache->delete_multi(qw(tagged other));
    },
    'a batch' => sub {
        $cache->quiet( sub { $_[0]->set( there => 'value' ) } );
    },
    'a batch that fails' => sub {
        eval {
            $cache->quiet( sub { $_[0]->add( there => 'value' ) } );
        }
    },
    'migrating' => sub {
        $old->set( moved => [1] );
        my $value = $migrating->get('moved');
        $migrating->delete('moved');
        $old->set( moved => bless [], 'Some::Object' );
        $value = $migrating->get('moved');
        $value = $migrating->get_multi(qw(moved there missing));
        $value = $migrating->progress;
        $migrating->using( on_failure => 'miss' )->get('moved');
        $migrating->delete_multi('moved');
    },
    'a migrating client' => sub { Pinyon::MigratingCache->new( $old, $cache )->get('there') },
    'a value is made'    => sub {
        $cache->get_or_set( made => sub { 'made' }, ttl => 60 );
        $cache->delete('made');
    },
    'many values are made' => sub {
        my $found =
            $cache->get_or_set_multi( [qw(made broken there)], sub { return { made => 'made', broken => [1] } }, ttl => 60 );
        $cache->delete_multi(qw(made broken));
    },
    'making many dies' => sub {
        eval {
            $cache->get_or_set_multi( [ 'never', 'ever' ], sub { die "no\n" }, ttl => 60 );
        };
        eval {
            $cache->get_or_set_multi( [ 'never', 'two words' ], sub { }, ttl => 60 );
        };
    },
    'making dies' => sub {
        eval {
            $cache->get_or_set( never => sub { die "no\n" } );
        }
    },
    'a lease' => sub { my $lease = $cache->lease('leased'); $lease->give_back },
    'servers' => sub { $cache->version; $cache->stats; $cache->metrics; $cache->near_metrics; my @servers = $cache->servers },
    'a refused key' => sub {
        eval { $cache->get('two words') };
        eval { $cache->get(undef) }
    },
    'a refused value' => sub {
        eval {
            $cache->set( x => [ sub { } ] );
        }
    },
    'a broken value' => sub {
        eval { $cache->get('broken') };
        eval { $cache->get_multi(qw(there broken)) }
    },
    'a dead server' => sub {
        eval { $dead->get('x') };
        eval { $dead->get_multi(qw(x y)) };
        eval { $dead->version }
    },
    'events' => sub {
        eval { $heard->get('x') }
    },
    'storable'          => sub { $storable->set( s => [ 1, 2 ] ); my $value = $storable->get('s') },
    'a client'          => sub { cache( namespace => 'other' )->get('x') },
    'a refused setting' => sub {
        eval { cache( time_out => 1 ) }
    },
    'a handler that dies' => sub {
        local $SIG{ALRM} = sub { die "enough\n" };
        Time::HiRes::ualarm(500);
        eval { $cache->get('there') for 1 .. 100_000 };
    },
);

for my $name ( sort keys %use ) {
    $use{$name}->() for 1 .. 3;
    no_leaks_ok( \&{ $use{$name} }, $name );
}

done_testing;
