use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Scalar::Util qw(blessed);
use Test::More;
use Time::HiRes ();

use Pinyon;
use Servers qw(eventually have_server server GENEROUS);
use Ways;

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my @command = ( 'memcached', '-u', scalar getpwuid($>), qw(-l 127.0.0.1 -p PORT -U 0) );
my ( $lasting, $dying ) = map { server(@command) } 1 .. 2;

# Callers of each model, and the values they have: small ones, and some that arrive in many parts.
my $callers = 50;
my %value   = map { ( "key:$_" => "$_ " . 'x' x ( 10**( 1 + $_ % 5 ) ) ) } 1 .. 40;
my @keys    = sort keys %value;

for my $way ( Ways::Coro->new, Ways::AnyEvent->new, Ways::Future->new ) {
    my $name = ref($way) =~ s/.*:://r;
    if ( my $missing = $way->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    subtest "a server dies in the middle of a loop's work, $name" => sub {
        my $cache = $way->cache(
            servers         => [ map { $_->{address} } $lasting, $dying ],
            failover        => 0,
            timeout         => GENEROUS,
            connect_timeout => GENEROUS
        );
        my $asked = sub { my ( $method, @arguments ) = @_; $way->got( scalar $cache->$method(@arguments) ) };
        my %place =
            map { my ($server) = $cache->servers_of($_); ( $_ => $server eq $dying->{address} ? 'dying' : 'lasting' ) } @keys;
        my ( $phase, %right, %failed, @wrong ) = ('before');
        my $use = sub {
            my ($key) = @_;
            my $found;
            if ( !eval { $asked->( set => $key => $value{$key} ); $found = $asked->( get => $key ); 1 } ) {
                return push @wrong, "$key: $@"              if !blessed $@ || !$@->isa('Pinyon::Error') || !$@->is_outage;
                return push @wrong, "$key, which lasts: $@" if $place{$key} eq 'lasting';
                return $failed{$phase}++;
            }
            return $right{"$place{$key} $phase"}++ if defined $found ? $found eq $value{$key} : $place{$key} eq 'dying';
            return push @wrong, "$key is " . substr $found // 'undef', 0, 40;
        };
        my $goes_on  = 1;
        my @ended    = (0) x $callers;
        my $together = sub {
            my ($number) = @_;
            while ($goes_on) { $use->( $keys[ rand @keys ] ) }
            return $ended[$number] = 1;
        };
        my $faults = sub {
            my $reaches = sub {
                my ( $count, $next ) = @_;
                eventually { $way->pause(0.001); ( ${$count} || 0 ) > 100 }
                    or push @wrong, "too little happens before it is $next";
                $phase = $next;
            };
            eval {
                $reaches->( \$right{'dying before'}, 'dead' );
                $dying->stop;
                $reaches->( \$failed{dead},                'dead still' );
                $reaches->( \$right{'lasting dead still'}, 'again' );
                $dying->start;
                $reaches->( \$right{'dying again'}, 'over' );
                1;
            } or push @wrong, $@;
            $goes_on = 0;
        };
        $way->together(
            $faults,
            map {
                my $number = $_;
                sub { $together->($number) }
            } 0 .. $callers - 1
        );
        is_deeply [ @wrong > 5 ? @wrong[ 0 .. 4 ] : @wrong ], [], 'no wrong value, and what lasts does not fail';
        is scalar( grep { $_ } @ended ), $callers, 'every caller ends';
        cmp_ok $right{$_} // 0, '>', 0, "values were read: $_" for 'dying before', 'lasting dead still', 'dying again';
        cmp_ok $failed{dead} // 0, '>', 0, 'what was on the other one failed';
    };
}

done_testing;
