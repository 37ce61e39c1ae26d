use 5.016;
use strict;
use warnings;

use FindBin      qw($Bin);
use Perl::Critic ();
use Perl::Tidy   ();
use Test::More;

# Modules and tests are as perltidy and perlcritic (stern) want them, by the profiles beside this.
my @modules = glob "$Bin/../lib/Pinyon.pm $Bin/../lib/Pinyon/*.pm $Bin/../lib/Pinyon/*/*.pm $Bin/../lib/*/*/Pinyon.pm";
my @files   = ( @modules, glob "$Bin/../Makefile.PL $Bin/../t/*.t $Bin/../t/lib/*.pm $Bin/*.t" );

for my $file (@files) {
    my ( $tidied, $errors );
    Perl::Tidy::perltidy(
        argv        => q{},
        source      => $file,
        destination => \$tidied,
        perltidyrc  => "$Bin/perltidyrc",
        errorfile   => \$errors,
        stderr      => \my $said,
    );
    open my $handle, '<', $file or die "$file: $!";
    local $/ = undef;
    ok $tidied eq <$handle>, "$file is tidy" or diag "perltidy -b -bext=/ -pro=xt/perltidyrc $file";
}

my $critic = Perl::Critic->new( -profile => "$Bin/perlcriticrc", -severity => 4 );
for my $file (@modules) {
    my @found = $critic->critique($file);
    is scalar @found, 0, "$file has no violations" or diag @found;
}

done_testing;
