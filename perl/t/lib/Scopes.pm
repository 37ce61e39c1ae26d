package Scopes;

# What happens while the end of a scope waits for its server.

use 5.016;
use strict;
use warnings;

use Exporter    qw(import);
use POSIX       ();
use Time::HiRes qw(sleep ualarm);

our @EXPORT_OK = qw(dies_at_the_end_of_a_scope);

# Takes a guard in a scope at the end of which the server is paused, and has a handler of signals die there. The server
# goes on a second later. Returns what the program died of; undef if it went on.
sub dies_at_the_end_of_a_scope {
    my ( $server, $take ) = @_;
    local $SIG{ALRM} = sub { die "enough\n" };
    my $resumes;
    my $is_over = eval {
        my $count = 0;
        {
            my $guard = $take->();
            $server->pause;
            $resumes = fork // die "fork: $!";
            if ( !$resumes ) {
                sleep 1;
                $server->resume;
                POSIX::_exit(0);
            }
            ualarm 200_000;
        }
        $count++ while $count < 1000;
        1;
    };
    my $died = $@;
    waitpid $resumes, 0;
    return $is_over ? undef : $died;
}

1;
