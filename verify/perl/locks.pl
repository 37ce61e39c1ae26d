#!/usr/bin/env perl
# A client process of Perl's among those of `python -m pinyon_verify locks`:
#
#     perl -Mblib=perl locks.pl SETTINGS
#
# It works and records as pinyon_verify/locks/share.py and work.py do, in ithreads, alone, or in coroutines of Coro's.

use 5.016;
use strict;
use warnings;

use threads;

use FindBin     qw($Bin);
use JSON::PP    ();
use POSIX       ();
use Time::HiRes ();

use lib "$Bin/lib";
use Candidacy ();
use Candidate ();
use Models    ();
use Recorder  qw(content ending now);
use Share     ();
use Worker    ();

# A process that got no time for so long, in nanoseconds, says so.
use constant STALL => 80_000_000;

sub wait_for_start {
    my ($folder) = @_;
    Time::HiRes::sleep(0.005) until -e "$folder/start";
    return;
}

# Records when this process got no processor time. Signals are for the thread that works.
sub watch_for_stalls {
    my ( $recorder, $folder ) = @_;
    POSIX::sigprocmask( POSIX::SIG_BLOCK(), POSIX::SigSet->new( POSIX::SIGALRM() ) );
    wait_for_start($folder);
    while ( ( my $before = now() ) < ending($folder) ) {
        Time::HiRes::sleep(0.02);
        $recorder->record( 'stall', q{}, at => $before, until => now() ) if now() - $before > STALL;
    }
    return;
}

my ( $settings, $recorder, $model );

sub worker {
    my ( $number, $locks ) = @_;
    return Candidate->new( $model, Candidacy->new( $settings, $recorder, $number, $model ), $locks ) if $settings->{leads};
    return Worker->new( $model, Share->new( $settings, $recorder, $number ), $locks );
}

$settings = JSON::PP->new->utf8->decode( content( $ARGV[0] ) );
$recorder = Recorder->new( $settings->{folder} );

# Before Coro is loaded, which threads must not copy.
my $watcher = threads->create( \&watch_for_stalls, $recorder, $settings->{folder} );
$model = Models::of( $settings->{model} );
$recorder->record('ready');
wait_for_start( $settings->{folder} );
my $shared = $settings->{apart} ? undef : $model->locks($settings);
$model->run(
    map {
        my $number = $_;
        sub {
            my $locks = $shared || $model->locks($settings);
            worker( $number, $locks )->work;
            $locks->close if !$shared;
        }
    } 0 .. $settings->{workers} - 1
);
$shared->close if $shared;
$watcher->join;
$recorder->record('over');
