package Pinyon::Compat::Replace;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp           ();
use File::Basename qw(dirname);
use File::Spec     ();

my %FILE = (
    'Cache::Memcached'       => 'Cache/Memcached.pm',
    'Cache::Memcached::Fast' => 'Cache/Memcached/Fast.pm',
);

# Loads a class with the original's name, before anything else does.
sub import {
    my ( undef, @classes ) = @_;
    @classes = sort keys %FILE if !@classes;
    for my $class (@classes) {
        my $file = $FILE{$class} or Carp::croak("Pinyon replaces @{[ join ' and ', sort keys %FILE ]}, not $class");
        my $ours = folder() . "/$file";
        next                                                                           if ( $INC{$file} // q{} ) eq $ours;
        Carp::croak("$class is loaded already: use Pinyon::Compat::Replace before it") if $INC{$file};
        local @INC = ( folder(), @INC );
        require $file;
    }
    return;
}

# The folder for `use lib` and PERL5LIB.
sub folder {
    return File::Spec->rel2abs( dirname(__FILE__) ) . '/replace';
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Compat::Replace - Pinyon in place of Perl's other clients, for code that names them

=head1 SYNOPSIS

    use Pinyon::Compat::Replace 'Cache::Memcached::Fast';
    use Cache::Memcached::Fast;

    my $memd = Cache::Memcached::Fast->new({ servers => ['127.0.0.1:11211'] });
    say $memd->isa('Pinyon::Compat::Cache_Memcached_Fast');    # 1

=head1 DESCRIPTION

C<use> takes the names C<Cache::Memcached> and C<Cache::Memcached::Fast>; without names, it replaces both. It must come first in the
program. If you cannot change a program, put the folder into its environment:

    PERL5LIB=$(perl -MPinyon::Compat::Replace=Cache::Memcached -e 'print Pinyon::Compat::Replace::folder()')

=head1 FUNCTIONS

=head2 folder

The folder with the classes, for C<use lib>.

=cut
