use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache eventually have_server locks memcached program redis);

# What a program leaves behind where it ends without the end of a scope.

for my $needed (qw(memcached redis-server)) {
    plan skip_all => "$needed is not installed" if !have_server($needed);
}

my $way = <<'CODE';
use strict; use warnings; use Pinyon;
my ( $memcached, $redis, $namespace, $module ) = @ARGV;
eval "use Coro; require Pinyon::$module; 1" or die $@ if $module;
my $class = 'Pinyon::' . ( $module ? "${module}::" : q{} );
my ( $caches, $locks ) = ( "${class}Cache"->new( servers => $memcached ), "${class}Locks"->new( $redis, namespace => $namespace, ttl => 3600 ) );
sub got { return ref $_[0] eq 'AnyEvent::CondVar' ? $_[0]->recv : $_[0] }
CODE

# Names, and how a program keeps their locks.
my %kept = (
    package  => 'our $lock = got( $locks->lock($name) );',
    hash     => 'our %locks = ( a => got( $locks->lock($name) ) );',
    cycle    => 'my %self = ( lock => got( $locks->lock($name) ) ); $self{self} = \%self;',
    captured => 'my $lock = got( $locks->lock($name) ); sub work { $lock->check } work();',
    exit     => 'our $lock = got( $locks->lock($name) ); exit 0;',
    scope    => 'sub work { my $lock = got( $locks->lock($name) ); exit 0 } work();',
);

my $mine = locks();
for my $module ( q{}, 'AnyEvent', 'Coro' ) {
    SKIP: {
        skip "$module is not installed", 1 if $module && !eval "require Coro; require $module; 1";
        subtest "the program's end releases locks" . ( $module && " of Pinyon::$module" ) => sub {
            for my $name ( sort keys %kept ) {
                my @said = program(
                    "$way my \$name = '$name'; $kept{$name}",
                    memcached()->{address},
                    'unix://' . redis()->{address},
                    "t$$", $module
                );
                is_deeply \@said, [ q{}, 0 ], "$name: it ends well";
                ok eventually { !$mine->is_locked($name) }, 'and nothing is locked';
            }
        };
    }
}

subtest 'a child leaves the locks of its parent alone' => sub {
    my ( $said, $status ) = program( <<"CODE", memcached()->{address}, 'unix://' . redis()->{address}, "t$$", q{} );
$way our \$lock = \$locks->lock('parent');
my \$child = fork // die; exit 0 if !\$child;
waitpid \$child, 0; print \$lock->check->is_held, "\\n";
CODE
    is_deeply [ $said, $status ], [ "1\n", 0 ];
};

SKIP: {
    skip 'Coro is not installed', 1 if !eval { require Coro; require Pinyon::Coro; 1 };
    subtest 'a program whose coroutines use a serializer in Perl runs once' => sub {
        my @said = program( <<'CODE', memcached()->{address} );
use strict; use warnings; use Coro; use Pinyon::Coro;
package Own { sub new { bless {}, shift } sub dump { ( $_[1], 7 ) } sub load { $_[1] } }
my $cache = Pinyon::Coro::Cache->new( servers => @ARGV, serializer => Own->new );
$cache->set( once => 'a value' );
print $cache->get('once'), "\n";
CODE
        is_deeply \@said, [ "a value\n", 0 ];
    };
}

subtest "the program's end gives back leases" => sub {
    my @said = program(
        "$way our \$lease = \$caches->lease('left');",
        memcached()->{address},
        'unix://' . redis()->{address},
        "t$$", q{}
    );
    is_deeply \@said, [ q{}, 0 ];
    ok cache()->lease('left')->is_won;
};

# As mod_perl closes them, each time Apache reads its configuration anew. It is read twice at Apache's start.
subtest 'the library stays, and what it has made once, when a program closes it' => sub {
    plan skip_all => 'this Perl closes no libraries' if !defined &DynaLoader::dl_unload_file;
    my @said = program(<<'CODE');
use strict; use warnings; use Pinyon;
my ($library) = map { $DynaLoader::dl_librefs[$_] } grep { $DynaLoader::dl_modules[$_] eq 'Pinyon' } 0 .. $#DynaLoader::dl_modules;
DynaLoader::dl_unload_file($library) or die DynaLoader::dl_error();
print Pinyon::_number_of('get'), "\n";
CODE
    is_deeply \@said, [ "0\n", 0 ];
};

done_testing;
