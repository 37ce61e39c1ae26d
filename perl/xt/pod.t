use 5.016;
use strict;
use warnings;

use Test::More;
use Test::Pod 1.52;
use Test::Pod::Coverage 1.10;

pod_file_ok($_)
    for ( glob 'lib/Pinyon.pm lib/Pinyon/*.pm lib/Pinyon/Compat/*.pm lib/CHI/Driver/*.pm lib/Dancer2/Session/*.pm' );

# What the documentation does not name although it could be called: what other modules of Pinyon's call.
my $wishes           = qr/RELEASE|EXTEND|PARK|NOTIFY|HAND_OVER|UPGRADE|DOWNGRADE/;
my $called_by_others = qr/\A(?:CLAIM|DESTROY|IS_FORKED|LOSS_RELEASED|$wishes)\z/;
pod_coverage_ok( $_, { also_private => [$called_by_others] } )
    for
    qw(Pinyon Pinyon::Cache Pinyon::MigratingCache Pinyon::Locks Pinyon::Lock Pinyon::Leader Pinyon::Permits Pinyon::Batch Pinyon::Lease Pinyon::Error
    Pinyon::Compat::Cache_Memcached Pinyon::Compat::Cache_Memcached_Fast Pinyon::Compat::Replace CHI::Driver::Pinyon Dancer2::Session::Pinyon Pinyon::Minion);

# Both classes are in one file.
require Pinyon::Time;
for my $class (qw(Pinyon::Instant Pinyon::DateTime)) {
    local $INC{ ( $class =~ s{::}{/}gr ) . '.pm' } = $INC{'Pinyon/Time.pm'};
    pod_coverage_ok( $class, { pod_from => $INC{'Pinyon/Time.pm'} } );
}

# These have the methods of the clients that wait, which are documented there.
pod_coverage_ok($_) for qw(Pinyon::AnyEvent Pinyon::Coro Pinyon::Future Pinyon::Mojo);

done_testing;
