package Pinyon::Made;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

my %IS_OPTION = map { $_ => 1 } qw(ttl stale store);

sub new {
    my ( $class, $value, %options ) = @_;
    for my $name ( sort keys %options ) {
        Pinyon::Error::Usage->throw(qq{Pinyon::Made has no option "$name"}) if !$IS_OPTION{$name};
    }
    return bless { value => $value, store => 1, %options }, $class;
}

# What a maker made, with or without more to say of it.
sub value_of {
    my ($made) = @_;
    return UNIVERSAL::isa( $made, 'Pinyon::Made' ) ? $made->{value} : $made;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Made - a value that was made for get_or_set, and how long to keep it

=head1 SYNOPSIS

    use Pinyon;

    my $cache   = Pinyon::Cache->new( servers => '127.0.0.1:11211' );
    my $product = $cache->get_or_set(
        'product:7' => sub {
            my $found = { name => 'tea' };    # from a database
            return $found // Pinyon::Made->new( undef, ttl => 5 );
        },
        ttl => 60,
    );

=head1 METHODS

=head2 new($value, ttl => $seconds, stale => $seconds, store => $truth)

What a sub that makes a value for C<get_or_set> may return in its place. C<ttl> is how long this value is fresh; 0 never expires.
C<stale> is how long after that it is still used while one caller makes a new one: at most as long as the call says. Without these,
the call decides. If C<store> is false, the callers that wait get this value, and the next caller makes another one.

=for Pod::Coverage value_of

=cut
