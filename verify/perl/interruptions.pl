#!/usr/bin/env perl
# Random interruptions of live calls by a handler that dies, and calls in handlers: no wrong value may come of it.
#
#     perl -Mblib=perl verify/perl/interruptions.pl [COUNT]
#
# Starts a memcached of its own. COUNT interruptions (20000) of get, get_multi, set and get_or_set are made.

use 5.016;
use strict;
use warnings;

use File::Temp ();
use Time::HiRes qw(sleep time ualarm);

use Pinyon;

my $count  = shift // 20_000;
my $folder = File::Temp->newdir;
my $socket = "$folder/socket";
my $server = fork // die "fork: $!";
if ( !$server ) {
    exec 'memcached', '-u', scalar getpwuid($>), '-s', $socket, '-t', 2 or exit 127;
}
END { my $status = $?; kill 'KILL', $server if $server; $? = $status }
sleep 0.01 until -S $socket;

my $cache = Pinyon::Cache->new( servers => $socket, timeout => 60, connect_timeout => 60 );
my %value = map { ( "key$_" => "value of key$_ " . 'x' x ( $_ * 20 ) ) } 1 .. 50;
my @keys  = sort keys %value;
$cache->set_multi( map { [ $_ => $value{$_} ] } @keys );

my ( $interrupted, $nested, $wrong ) = ( 0, 0, 0 );
my $give_up = time + 1800;

sub is_right { my ( $key, $found ) = @_; return defined $found && $found eq $value{$key} }

sub once {
    my $key = $keys[ rand @keys ];
    $wrong++ if !is_right( $key, $cache->get($key) );
    $cache->set( $key => $value{$key} );
    my $found = $cache->get_multi(@keys);
    $wrong++ if grep { !is_right( $_, $found->{$_} ) } @keys;
    my $made = $cache->get_or_set( "made-$$" => sub {'made'}, ttl => 60 );
    $wrong++ if $made ne 'made';
    return;
}

$SIG{ALRM} = sub {    ## no critic (RequireLocalizedPunctuationVars)
    if ( rand() < 0.2 ) {
        my $key = $keys[ rand @keys ];
        $wrong++ if !is_right( $key, $cache->get($key) );
        $nested++;
    }
    die "interrupted\n";
};
while ( $interrupted < $count && time < $give_up ) {
    eval {
        ualarm 1 + int rand 400;
        once() for 1 .. 20;
        1;
    } or do {
        die $@ if $@ ne "interrupted\n";
        $interrupted++;
    };
    eval { ualarm 0; 1 } or $interrupted++;
}
say "$interrupted interruptions, $nested calls in handlers, $wrong wrong values";
exit( $wrong || $interrupted < $count ? 1 : 0 );
