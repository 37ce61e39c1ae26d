use 5.016;
use strict;
use warnings;

use Config;
use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use if $Config{useithreads}, 'threads';

use Pinyon;
use Servers qw(cache have_server in_child memcached program);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my $cache = cache( namespace => 'processes:' );
my %value = map { ( "key$_" => "value $_" ) } 1 .. 50;
$cache->set_multi( map { [ $_ => $value{$_} ] } keys %value );

sub wrong_of {
    my ($client) = @_;
    my $wrong = 0;
    for ( 1 .. 20 ) {
        for my $key ( keys %value ) {
            $wrong++ if $client->get($key) ne $value{$key};
        }
        my $found = $client->get_multi( keys %value );
        $wrong++ if grep { $found->{$_} ne $value{$_} } keys %value;
    }
    return $wrong;
}

subtest 'a fork needs nothing' => sub {
    my @said = map {
        in_child { wrong_of($cache) }
    } 1 .. 3;
    is_deeply \@said, [ 0, 0, 0 ];
    is wrong_of($cache), 0, 'the parent goes on';
};

subtest 'a batch belongs to its process' => sub {
    my $batch = $cache->quiet;
    $batch->set( key1 => 'changed' );
    my $said = in_child {
        eval { $batch->finish; 1 } ? 'finished' : ref $@
    };
    like $said, qr/^Pinyon::Error/, 'a child does not finish it';
    $batch->finish;
    is $cache->get('key1'), 'changed';
    $cache->set( key1 => $value{key1} );
};

my $forking = <<'PROGRAM';
use Pinyon;
my ( $cache, $other ) = map { Pinyon::Cache->new( servers => $ARGV[0] ) } 1, 2;
my $make = sub {
    my $child = fork // die "fork: $!";
    exit 0 if !$child;
    waitpid $child, 0;
    print $other->lease( $ARGV[1] )->state, "\n";
    return "parent's";
};
if ( $ARGV[1] eq 'made' ) {
    $cache->get_or_set( made => $make, ttl => 60 );
}
else {
    my $lease = $cache->lease('won');
    $lease->fulfil( $make->(), 60 );
}
print $other->get( $ARGV[1] ), "\n";
PROGRAM

subtest 'a child that exits while a value is made leaves the lease to its parent' => sub {
    for my $way (qw(made won)) {
        is_deeply [ program( $forking, memcached()->{address}, $way ) ], [ "filling\nparent's\n", 0 ], $way;
    }
};

SKIP: {
    skip 'this perl has no threads', 1 if !$Config{useithreads};
    subtest 'threads have a client each, of the same connections' => sub {
        my $batch = $cache->quiet;
        my @ended = map { $_->join } map {
            threads->create( sub { wrong_of($cache) } )
        } 1 .. 4;
        is_deeply \@ended, [ 0, 0, 0, 0 ];
        is wrong_of($cache), 0;
        my $said = threads->create(
            sub {
                eval { $batch->set( a => 1 ); 1 } ? 'set' : 'refused';
            }
        )->join;
        is $said, 'refused', 'a batch is not cloned';
        $batch->finish;
        my $made = threads->create( sub { cache()->get('missing'); return 'ended' } )->join;
        is $made, 'ended', 'a client of a thread ends with it';
    };
}

done_testing;
