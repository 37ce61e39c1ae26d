use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Playing qw(play_all);
use Servers qw(have_server root);
use Ways;

plan skip_all => 'the scenarios are in the checkout' if !root();
plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server python3);

my %way = (
    blocking => Ways::Blocking->new,
    coro     => Ways::Coro->new,
    anyevent => Ways::AnyEvent->new,
    future   => Ways::Future->new,
);

# Threads first: they copy all that is loaded.
for my $name (qw(blocking coro anyevent future)) {
    if ( my $missing = $way{$name}->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    my ( $count, @wrong ) = play_all( $way{$name} );
    cmp_ok $count, '>', 400, "$count scenarios, $name";
    is scalar @wrong, 0, 'nothing is wrong' or diag @wrong;
}

done_testing;
