use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Servers qw(have_server memcached GENEROUS);

# CHI's tests of its own drivers for memcached, with classes of this distribution in place of the clients.
my %client;

BEGIN {
    plan skip_all => 'memcached is not installed' if !have_server('memcached');
    %client = ( Memcached => 'Pinyon::Compat::Cache_Memcached', Fast => 'Pinyon::Compat::Cache_Memcached_Fast' );
    for my $kind ( keys %client ) {
        my $theirs = "CHI::Driver::Memcached::t::CHIDriverTests::$kind";
        plan skip_all => "CHI's drivers for memcached are not installed"
            if !eval "require CHI; require CHI::Test; require $theirs";
        no strict 'refs';
        @{"Own::${kind}::ISA"} = $theirs;
    }
}

my %generous = ( select_timeout => GENEROUS, connect_timeout => GENEROUS );

# Their server is at the usual port, and they look at which of the clients is loaded.
sub replace {
    my ($kind) = @_;
    my $options = "Own::$kind"->can('new_cache_options');
    no strict 'refs';
    *{"Own::${kind}::new_cache_options"} =
        sub { return ( $options->(@_), servers => [ memcached()->{address} ], memd_class => $client{$kind}, %generous ) };
    *{"Own::${kind}::memcached_class"}        = sub { return $client{$kind} };
    *{"Own::${kind}::connect_to_memcached"}   = sub { };
    *{"Own::${kind}::right_memcached_loaded"} = sub { };
    return;
}

replace($_) for keys %client;

END {
    die 'the originals are loaded' if grep { $INC{$_} } qw(Cache/Memcached.pm Cache/Memcached/Fast.pm);
}
Test::Class->runtests( map { "Own::$_" } sort keys %client );
