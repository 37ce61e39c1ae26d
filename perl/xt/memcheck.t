use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use Test::More;

# What waits, loops and locks, under valgrind: nothing may read or write where it must not.
plan skip_all => 'valgrind is not installed' if !grep { -x "$_/valgrind" } split /:/, $ENV{PATH};

my $include  = join q{ }, map { "-I$_" } grep { !ref } @INC;
my $valgrind = 'valgrind -q --num-callers=20 --suppressions=xt/valgrind.suppressions --error-exitcode=99 --trace-children=no';

sub is_clean {
    my ( $test, @modules ) = @_;
    local $ENV{PERL_DESTRUCT_LEVEL} = 2;
    my $said = `cd $Bin/.. && $valgrind $^X $include -It/lib @modules t/$test.t 2>&1`;
    is( $? >> 8, 0, "$test under memcheck" ) or diag $said;
    return;
}

is_clean($_) for qw(caches leases errors leaks signals locks);

SKIP: {
    skip 'Coro is not installed', 6 if !eval { require Coro; 1 };
    is_clean( $_, '-MFarStacks' ) for qw(loops loop_locks loop_leaks loop_failures discovery promises);
}

done_testing;
