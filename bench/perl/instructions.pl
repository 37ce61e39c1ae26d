#!/usr/bin/perl

# The program whose instructions are counted: `perl instructions.pl MODEL SOCKET`. `callgrind.py` describes its marks.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", map {"$FindBin::Bin/../../perl/blib/$_"} qw(lib arch);
use POSIX qw(_exit);

use constant {
    MORE   => 3,
    ROUNDS => 5,

    # Seconds, far more than any operation takes, even on slow processors that do something else as well.
    TIMEOUT => 30,

    # Seconds for which hot keys in memory are fresh.
    FOREVER  => 10_000,
    LOCK_TTL => 10_000,
    VALUE    => 'v' x 36,
};

# How many coroutines at once.
my @COROUTINES = ( 1, 16, 100 );
my @PATIENT    = ( timeout => TIMEOUT, connect_timeout => TIMEOUT );
my @KEYS       = map { sprintf '%036d', $_ } 0 .. 99;
my %MODELS     = ( perl => \&blocking, 'perl:coro' => \&coroutines, 'perl:locks' => \&locks );

# Calls that wait. Loops on lexical variables cost least beside the client.
sub blocking ($address) {
    require Pinyon;
    my $client = filled( Pinyon::Cache->new( servers => [$address], @PATIENT ) );
    my $key    = $KEYS[0];
    count(
        'perl:get',
        100,
        sub ($left) {
            while ( $left-- ) { my $value = $client->get($key) }
        }
    );
    count(
        'perl:set',
        100,
        sub ($left) {
            while ( $left-- ) { my $stored = $client->set( $key, VALUE ) }
        }
    );
    count(
        'perl:get_multi:100',
        10,
        sub ($left) {
            while ( $left-- ) { my $found = $client->get_multi(@KEYS) }
        }
    );
    my @pairs = map { [ $_, VALUE ] } @KEYS;
    count(
        'perl:set_multi:100',
        10,
        sub ($left) {
            while ( $left-- ) { my $stored = $client->set_multi(@pairs) }
        }
    );
    my $near = filled( Pinyon::Cache->new( servers => [$address], near => {fresh => FOREVER}, @PATIENT ) );
    count(
        'perl:near:get',
        100,
        sub ($left) {
            while ( $left-- ) { my $value = $near->get($key) }
        }
    );
    return;
}

# Coroutines that share a client, each with its own key.
sub coroutines ($address) {
    require Pinyon::Coro;
    require PinyonBench::Model::Coro;
    my $client = filled( Pinyon::Coro::Cache->new( servers => [$address], @PATIENT ) );
    for my $many (@COROUTINES) {
        my @keys = @KEYS[ 0 .. $many - 1 ];
        my $few  = $many == 1 ? 50 : 10;
        count(
            "perl:coro:get:$many",
            $few,
            sub ($times) {
                together(
                    @keys,
                    sub ( $key, $left = $times ) {
                        while ( $left-- ) { my $value = $client->get($key) }
                    }
                );
            },
            $many
        );
        count(
            "perl:coro:set:$many",
            $few,
            sub ($times) {
                together(
                    @keys,
                    sub ( $key, $left = $times ) {
                        while ( $left-- ) { my $stored = $client->set( $key, VALUE ) }
                    }
                );
            },
            $many
        );
    }
    return;
}

# A lock of one name, acquired and released by a program that waits.
sub locks ($address) {
    require Pinyon;
    my $locks = Pinyon::Locks->new( "unix://$address", connect_timeout => TIMEOUT );
    count(
        'perl:locks:pair',
        60,
        sub ($times) {
            $locks->synchronized( 'name', sub { }, ttl => LOCK_TTL, timeout => TIMEOUT ) for 1 .. $times;
        }
    );
    return;
}

# Does some work for each key, each in a coroutine.
sub together (@keys) {
    my $work = pop @keys;
    return PinyonBench::Model::Coro->together(
        map {
            my $key = $_;
            sub { $work->($key) }
        } @keys
    );
}

# Returns a client whose server has all keys.
sub filled ($client) {
    $client->set( $_, VALUE ) for @KEYS;
    my $found = $client->get_multi(@KEYS);
    die "the server does not hold what was set\n" if grep { ( $found->{$_} // q{} ) ne VALUE } @KEYS;
    return $client;
}

# Does an operation few times, and more often, and prints its name.
sub count ( $name, $few, $operation, $at_once = 1 ) {
    $operation->($few);
    for ( 1 .. ROUNDS ) {
        for my $times ( $few, MORE * $few ) {
            getppid();
            $operation->($times);
        }
    }
    getppid();
    local $| = 1;
    print "$name\t", $few * ( MORE - 1 ) * $at_once, "\n" or die "nobody reads: $!\n";
    return;
}

my ( $model, $address ) = @ARGV;
my $count = $MODELS{$model // q{}};
die 'usage: perl instructions.pl ', join( q{|}, sort keys %MODELS ), " SOCKET\n" if !$count || !$address;
$count->($address);

# The end of the interpreter under callgrind is of no interest.
_exit(0);
