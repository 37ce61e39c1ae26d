use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(time ualarm);

use Pinyon;
use Scopes  qw(dies_at_the_end_of_a_scope);
use Servers qw(cache have_server in_child memcached silent_server);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my $silent = silent_server();

subtest 'a handler that dies ends the wait' => sub {
    my $cache = cache( servers => [ $silent->{address} ] );
    local $SIG{ALRM} = sub { die "enough\n" };
    local $@ = 'untouched';
    alarm 1;
    my $died = do {
        local $@;
        eval { $cache->get('key'); 1 } ? undef : $@;
    };
    is $died, "enough\n", 'with its own error';
    is $@, 'untouched';
    my $thrown = { an => 'object' };
    local $SIG{ALRM} = sub { die $thrown };
    for my $call (
        sub { $cache->get_multi(qw(a b)) },
        sub { $cache->set_multi( [ a => 1 ] ) },
        sub { $cache->version },
        sub {
            $cache->get_or_set( page => sub { 1 } );
        },
        sub {
            $cache->quiet( sub { $_[0]->set( a => 1 ) } );
        },
        )
    {
        ualarm 200_000;
        ok !eval { $call->(); 1 };
        is $@, $thrown, 'with its own object';
    }
};

subtest 'a handler that dies while the end of a scope gives back a lease' => sub {
    my $cache = cache();
    my $died  = dies_at_the_end_of_a_scope( memcached(), sub { $cache->lease('scoped') } );
    is $died, "enough\n", 'dies into the program when that is over';
    ok $cache->lease('scoped')->is_won, 'and the lease is given back';
};

subtest 'a handler that dies while a caller of get_or_set that made nothing gives back' => sub {
    my $cache = cache();
    my $begin = sub {
        my $making = Pinyon::Making->new( $cache, 'unmade', ttl => 60 );
        is_deeply [ $making->_run($cache) ], [], 'has to make it';
        return $making;
    };
    is dies_at_the_end_of_a_scope( memcached(), $begin ), "enough\n", 'dies into the program when that is over';
    ok $cache->lease('unmade')->is_won, 'and the lease is given back';
};

subtest 'a handler that returns leaves the wait as it was' => sub {
    my $cache = cache( servers => [ $silent->{address} ], timeout => 2 );
    my $count = 0;
    local $SIG{ALRM} = sub { $count++ };
    ualarm 50_000, 50_000;
    ok !eval { $cache->get('key'); 1 };
    ualarm 0;
    isa_ok $@, 'Pinyon::Error::Timeout';
    cmp_ok $count, '>', 3, 'handlers ran during the wait';
};

subtest 'a handler may use the same client' => sub {
    my $cache = cache();
    my @keys  = map { "nested$_" } 1 .. 20;
    $cache->set_multi( map { [ $_ => "value of $_" ] } @keys );
    my ( $nested, $wrong ) = ( 0, 0 );
    local $SIG{ALRM} = sub {
        my $key = $keys[ rand @keys ];
        $wrong++ if $cache->get($key) ne "value of $key";
        $nested++;
        ualarm 500;
    };
    ualarm 500;
    for ( 1 .. 20_000 ) {
        my $key = $keys[ rand @keys ];
        $wrong++ if $cache->get($key) ne "value of $key";
        last     if $nested > 300;
    }
    local $SIG{ALRM} = 'IGNORE';
    ualarm 0;
    is $wrong, 0, 'no wrong value';
    cmp_ok $nested, '>', 0;
};

subtest 'random interruptions' => sub {
    my $cache = cache();
    my @keys  = map { "random$_" } 1 .. 50;
    $cache->set_multi( map { [ $_ => "value of $_" ] } @keys );
    my ( $interrupted, $wrong, $other ) = ( 0, 0, 0 );
    local $SIG{ALRM} = sub { die "interrupted\n" };
    my $until = time + 30;
    while ( $interrupted < 500 && time < $until ) {
        my $key = $keys[ rand @keys ];
        eval {
            ualarm 1 + int rand 300;
            for ( 1 .. 3 ) { $wrong++ if $cache->get($key) ne "value of $key" }
            my $found = $cache->get_multi(@keys);
            $wrong++ if grep { $found->{$_} ne "value of $_" } @keys;
            ualarm 0;
            1;
        } or do { $@ eq "interrupted\n" ? $interrupted++ : $other++ };
        eval { ualarm 0; 1 } or $interrupted++;
    }
    is $wrong, 0, 'no wrong value';
    is $other, 0, 'no other error';
    cmp_ok $interrupted, '>', 0, "$interrupted interruptions";
};

subtest 'a handler that ends the program' => sub {
    my $said = in_child {
        my $cache = cache( servers => [ $silent->{address} ] );
        pipe my $reader, my $writer;
        my $child = fork;
        if ( !$child ) {
            $SIG{ALRM} = sub { exit 7 };
            alarm 1;
            $cache->get('key');
            POSIX::_exit(0);
        }
        waitpid $child, 0;
        return $? >> 8;
    };
    is $said, 7, 'ends it';
};

subtest 'a handler that lets go of what is in use' => sub {
    our $cache = cache( servers => [ $silent->{address} ], timeout => 2 );
    our $key   = 'key';
    our $value = 'x' x 10_000;
    local $SIG{ALRM} = sub { undef $cache; $key = 'y' x 100_000; $value = undef; };
    ualarm 200_000;
    ok !eval { $cache->set( $key => $value ); 1 };
    isa_ok $@, 'Pinyon::Error';
};

done_testing;
