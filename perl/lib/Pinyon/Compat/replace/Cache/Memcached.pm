package    # not for CPAN's index
    Cache::Memcached;

use 5.016;
use strict;
use warnings;

# The version whose interface this is.
our $VERSION = '1.30';

use parent qw(Pinyon::Compat::Cache_Memcached);

1;
