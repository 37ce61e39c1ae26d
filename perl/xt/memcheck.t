use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use Test::More;

# What waits, under valgrind: nothing may read or write where it must not.
plan skip_all => 'valgrind is not installed' if !grep { -x "$_/valgrind" } split /:/, $ENV{PATH};

my $include = join q{ }, map { "-I$_" } grep { !ref } @INC;
for my $test (qw(caches leases errors leaks)) {
    local $ENV{PERL_DESTRUCT_LEVEL} = 2;
    my $said =
        `cd $Bin/.. && valgrind -q --suppressions=xt/valgrind.suppressions --error-exitcode=99 --trace-children=no $^X $include t/$test.t 2>&1`;
    is $? >> 8, 0, "$test under memcheck" or diag $said;
}

done_testing;
