package Typed;

# The typed values of vectors/README.md as Perl's, and back for comparisons.

use 5.016;
use strict;
use warnings;

use Exporter     qw(import);
use Math::BigInt ();

our @EXPORT_OK = qw(from_typed);

# A serializer that stores bytes with any flags, and reads both.
{

    package Typed::Bytes;
    sub new  { return bless {}, shift }
    sub dump { return @{ $_[1] } }        ## no critic (ProhibitBuiltinHomonyms)
    sub load { return [ @_[ 1, 2 ] ] }
}

# A typed value as Perl has it.
sub from_typed {
    my ($typed) = @_;
    my ( $type, $content ) = @{$typed};
    $content = $content->{repeated} x $content->{times} if ref $content eq 'HASH';
    return undef                                       if $type eq 'null';    ## no critic (ProhibitExplicitReturnUndef)
    return Pinyon::Values::boolean( $content ? 1 : 0 ) if $type eq 'bool';
    return pack 'H*', $content if $type eq 'bytes_hex';
    return $content                               if $type eq 'bytes';
    return _integer($content)                     if $type eq 'integer';
    return _float($content)                       if $type eq 'float';
    return _text($content)                        if $type eq 'text';
    return [ map { from_typed($_) } @{$content} ] if $type eq 'list' || $type eq 'tuple';
    return _map($content)                         if $type eq 'map';
    return _instant($content)                     if $type eq 'instant';
    return _date_time($content)                   if $type eq 'date_time';
    die "no type $type";
}

sub _text {
    my ($text) = @_;
    my $copy = "$text";
    utf8::upgrade($copy);
    return $copy;
}

sub _integer {
    my ($digits) = @_;
    my $big = Math::BigInt->new("$digits");
    return 0 + "$digits"
        if $big->bge( Math::BigInt->new('-9223372036854775808') ) && $big->ble( Math::BigInt->new('18446744073709551615') );
    return $big;
}

sub _float {
    my ($number) = @_;
    my $float = "$number";
    return $float =~ /inf/i ? ( $float =~ /-/ ? -9**9**9 : 9**9**9 ) : $float =~ /nan/i ? -sin( 9**9**9 ) : unpack 'd',
        pack 'd', $float;
}

sub _map {
    my ($pairs) = @_;
    my %map;
    for my $pair ( @{$pairs} ) {
        $map{ from_typed( $pair->[0] ) // q{} } = from_typed( $pair->[1] );
    }
    return \%map;
}

sub _instant {
    my ($text) = @_;
    my ( $seconds, $fraction ) = split /[.]/, $text;
    return Pinyon::Instant->new( 0 + $seconds, 0 + $fraction );
}

sub _date_time {
    my ($text) = @_;
    my @fields = $text =~ /\A(\d+)-(\d+)-(\d+)[T ](\d+):(\d+):(\d+)(?:[.](\d+))?\z/ or die "no date: $text";
    $fields[6] = defined $fields[6] ? substr( $fields[6] . '0' x 9, 0, 9 ) : 0;
    return Pinyon::DateTime->new( map { 0 + $_ } @fields );
}

1;
