package    # not for CPAN's index
    Cache::Memcached::Fast;

use 5.016;
use strict;
use warnings;

# The version whose interface this is.
our $VERSION = '0.28';

use parent qw(Pinyon::Compat::Cache_Memcached_Fast);

1;
