use 5.016;
use strict;
use warnings;

use Config;
use FindBin    qw($Bin);
use IO::Handle ();
use lib "$Bin/lib";
use Test::More;

use LockPlaying ();
use Pinyon;
use Ways    ();
use Servers qw(have_server in_child redis root);

plan skip_all => 'the scenarios are in the checkout' if !root();
plan skip_all => 'redis-server is not installed'     if !have_server('redis-server');

# In models whose methods belong to no caller, a caller says who it is.
my %models = (
    coro     => LockPlaying::Coroutines->new( Ways::Coro->new ),
    anyevent => LockPlaying::Coroutines->new( Ways::AnyEvent->new, 1 ),
    future   => LockPlaying::Coroutines->new( Ways::Future->new,   1 ),
);
$models{blocking} = LockPlaying::Threads->new if $Config{useithreads};

# Some locks last for three seconds. A busy machine may hold up everything for longer, but not each time.
use constant ATTEMPTS => 3;

# Processes that play at the same time. They mostly wait.
use constant AT_ONCE => 6;

my $file      = LockPlaying::scenarios();
my @scenarios = @{ $file->{scenarios} };
my $url       = 'unix://' . redis()->{address};

# Threads first: they copy all that is loaded.
for my $name ( grep { $models{$_} } qw(blocking coro anyevent future) ) {
    my $model = $models{$name};
    if ( my $missing = $model->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    my @players;
    for my $number ( 0 .. AT_ONCE - 1 ) {
        pipe my $reader, my $writer or die "pipe: $!";
        my $child = fork // die "fork: $!";
        if ( !$child ) {
            for ( my $index = $number; $index < @scenarios; $index += AT_ONCE ) {
                $writer->printflush("plays $scenarios[$index]{name}\n");
                my $wrong = 'not played';
                for my $attempt ( 1 .. ATTEMPTS ) {
                    $wrong = LockPlaying::played( $model, $url, "$name.$index.$attempt", $file->{client}, $scenarios[$index] );
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
        my @said  = <$reader>;
        my @wrong = grep { !/\Aplays / } @said;
        waitpid $child, 0;
        is $?,            0, "a player ends well, $name" or diag "what it said last: $said[-1]";
        is scalar @wrong, 0, 'nothing is wrong'          or diag @wrong;
    }
}
cmp_ok scalar @scenarios, '>', 20, scalar(@scenarios) . ' scenarios';

done_testing;
