use 5.016;
use strict;
use warnings;

use Config;
use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(have_server in_child redis root);

plan skip_all => 'the scenarios are in the checkout' if !root();
plan skip_all => 'redis-server is not installed'     if !have_server('redis-server');
plan skip_all => 'this perl has no threads'          if !$Config{useithreads};

require LockPlaying;

# Some locks last for three seconds. A busy machine may hold up everything for longer, but not each time.
use constant ATTEMPTS => 3;

# Processes that play at the same time. They mostly wait.
use constant AT_ONCE => 6;

my $file      = LockPlaying::scenarios();
my @scenarios = @{ $file->{scenarios} };
my $url       = 'unix://' . redis()->{address};

my @players;
for my $number ( 0 .. AT_ONCE - 1 ) {
    pipe my $reader, my $writer or die "pipe: $!";
    my $child = fork // die "fork: $!";
    if ( !$child ) {
        for ( my $index = $number; $index < @scenarios; $index += AT_ONCE ) {
            my $wrong = 'not played';
            for my $attempt ( 1 .. ATTEMPTS ) {
                $wrong = LockPlaying::played( $url, "s$index.$attempt", $file->{client}, $scenarios[$index] );
                last if !defined $wrong;
            }
            print {$writer} "$scenarios[$index]{name}: $wrong\n" if defined $wrong;
        }
        close $writer;
        POSIX::_exit(0);
    }
    close $writer;
    push @players, [ $child, $reader ];
}
for (@players) {
    my ( $child, $reader ) = @{$_};
    my @wrong = <$reader>;
    waitpid $child, 0;
    is $?,            0, 'a player ends well';
    is scalar @wrong, 0, 'nothing is wrong' or diag @wrong;
}
cmp_ok scalar @scenarios, '>', 20, scalar(@scenarios) . ' scenarios';

done_testing;
