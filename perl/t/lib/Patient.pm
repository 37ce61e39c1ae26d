package Patient;

# For the programs of the pages: their clients wait as long as a busy machine needs. What users write does without timeouts,
# and the defaults are meant for machines that have time for them.

use 5.016;
use strict;
use warnings;

use Pinyon           ();
use Pinyon::Cache    ();
use Pinyon::Locks    ();
use Pinyon::Settings ();

my $given = \&Pinyon::Settings::given;

no warnings 'redefine';    ## no critic (ProhibitNoWarnings)
*Pinyon::Settings::given = sub {
    my ( $class, @arguments ) = @_;
    my $timeout = $class->isa('Pinyon::Locks') ? 'command_timeout' : 'timeout';
    return ( $given->( $class, @arguments ), $timeout => 60, connect_timeout => 60 );
};

1;
