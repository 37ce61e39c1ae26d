#!/usr/bin/env perl

# Writes the reference pages of Perl's modules from their POD: `perl tools/site_perl.pl FOLDER`.

use v5.36;

use File::Basename qw(dirname);
use File::Find     qw(find);
use File::Path     qw(make_path);
use FindBin        qw($Bin);

package Pages {
    use parent 'Pod::Simple::XHTML';

    our %known;

    # A module of Pinyon's own has a page beside this one; all others are on CPAN.
    sub resolve_pod_page_link ( $self, $module, $section = undef ) {
        return $self->SUPER::resolve_pod_page_link( $module, $section ) if !defined $module || !$known{$module};
        return Pages::file($module) . ( defined $section ? '#' . $self->idify( $section, 1 ) : '' );
    }

    sub file ($module) { return ( $module =~ s/::/-/gr ) . '.html' }
}

my $style = <<'CSS';
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.6 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
  pre { overflow-x: auto; padding: 0.75rem; background: color-mix(in srgb, currentColor 8%, transparent); }
  code, pre { font: 0.9em/1.5 ui-monospace, monospace; }
  h1 { font-size: 1.4rem; margin-top: 2.5rem; } h2 { font-size: 1.1rem; }
</style>
CSS

my ($folder) = @ARGV;
die "usage: site_perl.pl FOLDER\n" if !defined $folder;
my $library = "$Bin/../perl/lib";
make_path($folder);

sub content ($path) {
    open my $file, '<:encoding(UTF-8)', $path or die "$path: $!\n";
    my $text = join q{}, readline $file;
    close $file or die "$path: $!\n";
    return $text;
}

sub page ( $name, $title, $body ) {
    my $head = qq{<head><meta charset="utf-8"><title>$title</title>\n$style</head>};
    open my $file, '>:encoding(UTF-8)', "$folder/$name" or die "$folder/$name: $!\n";
    print {$file} qq{<!DOCTYPE html>\n<html lang="en">\n$head\n<body>\n$body\n</body>\n</html>\n};
    return close $file;
}

# Modules with POD, but for what is for Pinyon's own.
my %about;
find(
    sub {
        return if !/[.]pm\z/ || $File::Find::name =~ m{/replace/};
        my ( $module, $what ) = content($_) =~ /^=head1 NAME\n+(\S+) - ([^\n]+)/m or return;
        $about{$module} = {path => $File::Find::name, what => $what} if $what !~ /own modules/;
    },
    $library
);
%Pages::known = %about;

for my $module ( sort keys %about ) {
    my $parser = Pages->new;
    $parser->html_header('');
    $parser->html_footer('');
    $parser->index(1);
    $parser->output_string( \my $body );
    $parser->parse_string_document( content( $about{$module}{path} ) );
    die "$about{$module}{path}: its POD has errors\n" if $parser->any_errata_seen;
    page( Pages::file($module), $module, qq{<p><a href="index.html">Pinyon for Perl</a></p>\n$body} );
}

my @lines = map { sprintf '<li><a href="%s">%s</a> - %s</li>', Pages::file($_), $_, $about{$_}{what} } sort keys %about;
page( 'index.html', 'Pinyon for Perl', join "\n", '<h1>Pinyon for Perl</h1>', '<ul>', @lines, '</ul>' );
