use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Servers qw(have_server memcached redis root);

plan skip_all => 'the pages are in the checkout' if !root();
plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server);
plan skip_all => 'CHI is not installed, which a page uses' if !eval { require CHI; 1 };

# Every block of Perl on the pages, and every synopsis in POD, runs by itself, and twice, on servers of its own. What a
# comment says at the end of a line with `say` is printed.
sub check_runs {
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
        my $said = `$^X $include @{[ $file->filename ]} 2>&1`;
        is $?, 0, "$name runs $time" or diag $said;
        my @missing = grep { index( $said, $_ ) < 0 } $block =~ /^.*\bsay\b.*[ ][#][ ](.*)$/mg;
        is "@missing", q{}, "$name prints what it says" or diag $said;
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
for my $module (
    glob "$Bin/../lib/Pinyon.pm $Bin/../lib/Pinyon/*.pm $Bin/../lib/Pinyon/Compat/*.pm $Bin/../lib/CHI/Driver/*.pm" )
{
    my ($synopsis) = content($module) =~ /^=head1 SYNOPSIS\n(.*?)^=head1/ms or next;
    check_runs( $synopsis, $module =~ s{.*/lib/}{}r );
    $count++;
}
cmp_ok $count, '>=', 5, "$count blocks";

done_testing;
