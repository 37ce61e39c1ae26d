use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(sleep ualarm);

use Pinyon;
use Servers qw(have_server locks redis);

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

my $locks = locks();

subtest 'a handler that dies while the end of a scope releases' => sub {
    my @said;
    local $SIG{__WARN__} = sub { push @said, @_ };
    local $SIG{ALRM}     = sub { die "enough\n" };
    my $resumes;
    my $is_over = eval {
        my $count = 0;
        {
            my $lock = $locks->lock('scoped');
            redis()->pause;
            $resumes = fork // die "fork: $!";
            if ( !$resumes ) {
                sleep 1;
                redis()->resume;
                POSIX::_exit(0);
            }
            ualarm 200_000;
        }
        $count++ while $count < 1000;
        1;
    };
    my $died = $@;
    waitpid $resumes, 0;
    ok !$is_over;
    is $died, "enough\n", 'dies into the program when that is over';
    ok !$locks->is_locked('scoped'), 'and the lock is released';
    is_deeply \@said, [];
};

done_testing;
