use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Servers qw(have_server memcached redis root);

plan skip_all => 'the pages are in the checkout' if !root();
plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server);

# Every block of Perl on the pages, and every synopsis in POD, runs by itself, and twice, on servers of its own. What a
# comment says at the end of a line with `say` is printed. A framework that is not installed is no failure.
sub check_runs {
    my ( $block, $name ) = @_;
    my $missing = missing_module($block);
    SKIP: {
        skip "$name: $missing is not installed", 1 if defined $missing;
        run_twice( $block, $name );
    }
    return;
}

sub run_twice {
    my ( $block,     $name )  = @_;
    my ( $memcached, $redis ) = ( memcached()->{address}, redis()->{address} );
    my $program = "use 5.016; use strict; use warnings; BEGIN { \$SIG{__WARN__} = sub { die \@_ } }\n$block";
    $program =~ s/127[.]0[.]0[.]1:11211/$memcached/g;
    $program =~ s{redis://127[.]0[.]0[.]1:6379/0}{unix://$redis}g;
    my $file = File::Temp->new;
    print {$file} $program;
    close $file;
    my $include = join q{ }, map { "-I$_" } grep { !ref } @INC;

    for my $time (qw(once twice)) {
        my $said = `$^X $include -MPatient @{[ $file->filename ]} 2>&1`;
        is $?, 0, "$name runs $time" or diag $said;
        my @missing = grep { index( $said, $_ ) < 0 } $block =~ /^.*\bsay\b.*[ ][#][ ](.*)$/mg;
        is "@missing", q{}, "$name prints what it says" or diag $said;
    }
    return;
}

# A module that the block uses, and that is not here. Those of Pinyon's own are.
sub missing_module {
    my ($block) = @_;
    for my $module ( grep { !/\APinyon\b/ } $block =~ /^\s*use[ ]([[:upper:]][\w:]*)/mg ) {
        my $file = ( $module =~ s{::}{/}gr ) . '.pm';
        return $module if !grep { -e "$_/$file" } grep { !ref } @INC;
    }
    return;
}

sub content {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!";
    local $/ = undef;
    return scalar <$file>;
}

my $count = 0;
for my $page ( glob root() . '/docs/*.md' ) {
    my ($name) = $page =~ m{([^/]+)[.]md\z};
    my $number = 0;
    check_runs( $_, $name . '.' . $number++ ) for content($page) =~ /^```perl\n(.*?)^```$/msg;
    $count += $number;
}
for my $module ( glob "$Bin/../lib/Pinyon.pm $Bin/../lib/Pinyon/*.pm $Bin/../lib/Pinyon/Compat/*.pm $Bin/../lib/*/*/Pinyon.pm" )
{
    my ($synopsis) = content($module) =~ /^=head1 SYNOPSIS\n(.*?)^=head1/ms or next;
    check_runs( $synopsis, $module =~ s{.*/lib/}{}r );
    $count++;
}
cmp_ok $count, '>=', 5, "$count blocks";

done_testing;
