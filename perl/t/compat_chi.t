use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Servers qw(have_server);

# Test classes must be loaded at compile time.
BEGIN {
    plan skip_all => 'memcached is not installed'             if !have_server('memcached');
    plan skip_all => 'CHI is not installed, or not its tests' if !eval { require CHI; require CHI::t::Driver; 1 };
    require ChiDriver;
}

ChiDriver->runtests;
