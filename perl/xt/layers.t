use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use Test::More;

# The header names all files of C from the top down. None uses what a file above it gives, and what a file gives is used.
sub content {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!";
    local $/ = undef;
    return scalar <$file>;
}

sub code {
    my ($text) = @_;
    return $text =~ s{/[*].*?[*]/}{}grs =~ s/"(?:\\.|[^"\\\n])*"//gr;
}

my ( undef, @chapters ) = split m{^/[*][ ]====[ ]}m, content("$Bin/../src/pinyon_perl.h");
my ( @order, %given );
for my $chapter (@chapters) {
    my ( $file, $rest ) = $chapter =~ /\A(\w+[.]c):.*?[*]\/\n(.*)\z/s or next;
    $rest = code($rest);
    push @order,             $file;
    push @{ $given{$file} }, $1 while $rest =~ /^(?:\w[^\n(;]*[ *])?(?:XSPROTO\()?(\w+)(?:\(|\)|\[|;)/mg;
}
is_deeply [ sort @order ], [ sort map { s{.*/}{}r } glob "$Bin/../src/*.c" ], 'the header names all files';

my %text   = map { ( $_ => code( content("$Bin/../src/$_") ) ) } @order;
my $inline = ( grep { /\AInline/ } @chapters )[0] =~ s{/[*].*?[*]/}{}grs;
my $xs     = join q{}, $inline, map { code( content($_) ) } "$Bin/../Pinyon.xs", glob "$Bin/../xs/*.xs";
for my $position ( 0 .. $#order ) {
    my $file = $order[$position];
    for my $name ( @{ $given{$file} } ) {
        my @users = grep { $_ ne $file && $text{$_} =~ /\b\Q$name\E\b/ } @order;
        my @below = grep { $text{$_}                =~ /\b\Q$name\E\b/ } @order[ $position + 1 .. $#order ];
        is "@below", q{}, "nothing below uses $name of $file";
        ok @users || $xs =~ /\b\Q$name\E\b/, "$name of $file is used elsewhere";
    }
}

done_testing;
