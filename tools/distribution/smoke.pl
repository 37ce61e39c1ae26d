#!/usr/bin/env perl
# What a user does first, with the distribution that is installed: perl smoke.pl FOLDER.

use 5.016;
use strict;
use warnings;

use File::Temp ();
use Time::HiRes qw(sleep time);

use Pinyon;

use constant SECONDS => 30;

sub check {
    my ( $fact, $what ) = @_;
    die "smoke: $what\n" if !$fact;
    return;
}

my ($folder) = @ARGV;
check( index( $INC{'Pinyon.pm'}, $folder ) == 0, "$INC{'Pinyon.pm'} is outside of $folder" );

my $sockets = File::Temp->newdir;
my ( $memcached, $redis ) = ( "$sockets/memcached", "$sockets/redis" );
my @processes;
for my $command (
    [ 'memcached', '-u', scalar getpwuid($>), '-s', $memcached ],
    [ 'redis-server', '--port', 0, '--save', q{}, '--dir', "$sockets", '--unixsocket', $redis ],
    )
{
    my $process = fork // die "fork: $!";
    if ( !$process ) {
        open STDOUT, '>', '/dev/null';
        exec { $command->[0] } @{$command} or exit 127;
    }
    push @processes, $process;
}
END { my $status = $?; kill 'TERM', @processes; waitpid $_, 0 for @processes; $? = $status }

my $until = time + SECONDS;
sleep 0.01 until ( -S $memcached && -S $redis ) || time > $until;

my %generous = ( connect_timeout => SECONDS );
for my $algorithm (qw(zlib zstd)) {
    my $cache = Pinyon::Cache->new(
        servers => $memcached, timeout => SECONDS, compression => { algorithm => $algorithm }, %generous
    );
    $cache->set( $algorithm => 'pinyon ' x 10_000, 60 );
    check( $cache->get($algorithm) eq 'pinyon ' x 10_000, $algorithm );
}
my $cache = Pinyon::Cache->new( servers => $memcached, timeout => SECONDS, %generous );
$cache->set_multi( map { [ "row:$_" => { number => $_ } ] } 1 .. 8 );
check( $cache->get('row:7')->{number} == 7, 'a value' );
check( keys %{ $cache->get_multi(qw(row:1 missing)) } == 1, 'many keys' );
check( !eval { $cache->get('a key'); 1 } && $@->isa('Pinyon::Error::InvalidKey'), 'a key with a space was accepted' );

my $locks = Pinyon::Locks->new( "unix://$redis", command_timeout => SECONDS, %generous );
check( $locks->synchronized( [qw(a b)], sub { $_[0]->token }, timeout => SECONDS ) > 0, 'a lock of two names' );

say "smoke: Pinyon $Pinyon::VERSION works in Perl $^V";
