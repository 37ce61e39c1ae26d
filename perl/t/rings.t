use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(root vectors);

plan skip_all => 'the vectors are in the checkout' if !root();

# Every ring of another client, as long as no server is down: which server holds which key.
my $vectors = vectors('rings')->{by_name};
for my $ring ( @{ $vectors->{rings} } ) {
    next if @{ $ring->{down} || [] };
    my $cache = Pinyon::Cache->new( servers => $ring->{servers}, ring => $ring->{ring}, namespace => $ring->{namespace} );
    my %index;
    @index{ $cache->servers } = 0 .. $#{ $ring->{servers} };
    my @places = map { $index{ ( $cache->servers_of($_) )[0] } } @{ $vectors->{keys} };
    is_deeply \@places, $ring->{places}, "$ring->{ring} on @{ $ring->{servers} }";
}

done_testing;
