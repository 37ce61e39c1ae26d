use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(have_server memcached GENEROUS);
use Ways    ();

# Any number of values, a chunk of keys at a time.

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my @settings = ( servers => memcached()->{address}, timeout => GENEROUS, connect_timeout => GENEROUS );

subtest 'a pair that was cancelled is not told' => sub {
    plan skip_all => 'AnyEvent is not installed' if !eval { require AnyEvent; require Pinyon::AnyEvent; 1 };
    my $cache = Pinyon::AnyEvent::Cache->new( @settings, namespace => "cancelled$$:" );
    $cache->set_multi( [ a => 1 ], [ b => 2 ] )->recv;
    my $next = $cache->iter_multi( [qw(a b)] );
    $next->( cb => sub { fail 'it was cancelled' } )->cancel;
    is_deeply $next->()->recv, undef, 'its chunk goes with it';
    $next = $cache->iter_multi( [qw(a b)] );
    is_deeply $next->()->recv, [ a => 1 ];
    $next->( cb => sub { fail 'it was cancelled' } )->cancel;
    is_deeply $next->()->recv, undef;
};

for my $name (qw(Blocking Coro AnyEvent Future)) {
    my $way = "Ways::$name"->new;
    if ( my $missing = $way->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    my $cache = $way->cache( @settings, namespace => "iter$name$$:" );
    my $wait  = sub {
        my ($call) = @_;
        return $way->wait_for( sub { $way->got( $call->() ) } );
    };
    my $pairs = sub {
        my ($next) = @_;
        my @pairs;
        if ( $name eq 'Blocking' || $name eq 'Coro' ) {
            while ( my @pair = $next->() ) { push @pairs, \@pair }
            return \@pairs;
        }
        while ( my $pair = $wait->($next) ) { push @pairs, $pair }
        return \@pairs;
    };
    $wait->( sub { $cache->set( "key:$_" => $_ ) } ) for grep { $_ != 3 && $_ != 20 } 1 .. 25;
    my @expected = map { [ "key:$_" => $_ ] } grep { $_ != 3 && $_ != 20 } 1 .. 25;

    subtest "$name: all values come in the order of their keys" => sub {
        for my $chunk ( 1, 10, 25, 100 ) {
            is_deeply $pairs->( $cache->iter_multi( [ map { "key:$_" } 1 .. 30 ], chunk => $chunk ) ), \@expected,
                "chunks of $chunk";
        }
        is_deeply $pairs->( $cache->iter_multi( [qw(key:2 key:1 key:2)] ) ), [ [ 'key:2', 2 ], [ 'key:1', 1 ] ];
        is_deeply $pairs->( $cache->iter_multi( [] ) ),                      [];
    };

    subtest "$name: few keys are taken ahead" => sub {
        my $taken = 0;
        my $next  = $cache->iter_multi( sub { 'key:' . ++$taken }, chunk => 10 );
        is $taken, 0;
        for ( 1 .. 9 ) { my @pair = $wait->($next) }
        is $taken, 10;
        my @pair = $wait->($next);
        is $taken, 20;
        is_deeply $pairs->( $cache->iter_multi( sub { return $taken++ < 25 ? "key:$taken" : () }, chunk => 2 ) ),
            [ map { [ "key:$_", $_ ] } 21 .. 25 ];
    };

    subtest "$name: what makes no sense is refused" => sub {
        for my $refused ( ['key'], [ [], chunk => 0 ], [ [], chunks => 5 ], [undef] ) {
            ok !eval { $cache->iter_multi( @{$refused} ); 1 };
            isa_ok $@, 'Pinyon::Error::Usage';
        }
        my $next = $cache->iter_multi( [ 'key:1', 'two words' ], chunk => 1 );
        my @pair = $wait->($next);
        ok !eval { $wait->($next); 1 };
        isa_ok $@, 'Pinyon::Error::InvalidKey';
    };

    subtest "$name: on both pools of a migrating client" => sub {
        plan skip_all => 'it is the same in other loops' if $name eq 'Future' || $name eq 'AnyEvent';
        my ( $old, $new ) = map { $way->cache( @settings, namespace => "iter$_$name$$:" ) } qw(old new);
        my $both =
            $name eq 'Coro' ? Pinyon::Coro::MigratingCache->new( $old, $new ) : Pinyon::MigratingCache->new( $old, $new );
        ( $_ % 2 ? $old : $new )->set( "key:$_" => $_ ) for 1 .. 50;
        is_deeply $pairs->( $both->iter_multi( [ map { "key:$_" } 1 .. 50 ], chunk => 20 ) ),
            [ map { [ "key:$_", $_ ] } 1 .. 50 ];
    };
}

done_testing;
