use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Scopes  qw(dies_at_the_end_of_a_scope);
use Servers qw(have_server locks redis);

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

my $locks = locks();

subtest 'a handler that dies while the end of a scope releases' => sub {
    my @said;
    local $SIG{__WARN__} = sub { push @said, @_ };
    my $died = dies_at_the_end_of_a_scope( redis(), sub { $locks->lock('scoped') } );
    is $died, "enough\n", 'dies into the program when that is over';
    ok !$locks->is_locked('scoped'), 'and the lock is released';
    is_deeply \@said, [];
};

done_testing;
