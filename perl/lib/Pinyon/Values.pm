package Pinyon::Values;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(blessed);
use Pinyon::Time ();

# What the XS calls for values that Perl has no type of its own for.

sub boolean {
    my ($truth) = @_;
    require JSON::PP;
    return $truth ? JSON::PP::true() : JSON::PP::false();
}

sub big {
    my ( $is_negative, $bytes ) = @_;
    require Math::BigInt;
    return Math::BigInt->from_hex( ( $is_negative ? q{-} : q{} ) . '0x' . unpack 'H*', reverse $bytes );
}

sub decoded {
    my ( $encoding, $bytes ) = @_;
    require Encode;
    my $known = Encode::find_encoding($encoding)
        or Pinyon::Error::UndecodableValue->throw(
        "the stored value has a text in the encoding $encoding, which Perl does not know");
    my $text = eval { $known->decode( $bytes, Encode::FB_CROAK() ) };
    defined $text
        or Pinyon::Error::UndecodableValue->throw("the stored value has a text that is not in its encoding, $encoding");
    return $text;
}

sub instant   { return Pinyon::Instant->new(@_) }
sub date_time { return Pinyon::DateTime->new(@_) }

# An object in parts, or nothing if it is no plain data.
sub described {
    my ($object) = @_;
    return [ 'instant', $object->epoch, $object->nanosecond ] if $object->isa('Pinyon::Instant');
    return [ 'date_time', @{$object} ] if $object->isa('Pinyon::DateTime');
    if ( $object->isa('Math::BigInt') && $object->is_int ) {
        my $hex = substr $object->copy->babs->as_hex, 2;
        $hex = "0$hex" if length($hex) % 2;
        return [ 'big', $object->is_neg ? 1 : 0, scalar reverse pack 'H*', $hex ];
    }
    return [ 'instant', $object->epoch, 0 ] if $object->isa('Time::Piece');
    return [ 'instant', $object->epoch, $object->nanosecond ]
        if $object->isa('DateTime') && !$object->time_zone->is_floating;
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Values - values that Perl has no type of its own for: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Cache>.

=cut
