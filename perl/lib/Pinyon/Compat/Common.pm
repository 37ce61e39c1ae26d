package Pinyon::Compat::Common;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp         ();
use Exporter     qw(import);
use Scalar::Util qw(blessed);

use Pinyon::Compat::Stored ();

our @EXPORT_OK = qw(_counted _failed _is_unread _is_unreadable _number _ttl);

our @CARP_NOT = map { "Pinyon::Compat::$_" } qw(Cache_Memcached Cache_Memcached_Fast Client Common Many Stored);

# memcached takes larger numbers for Unix times.
use constant LONGEST_RELATIVE => 30 * 24 * 60 * 60;

# What a call fails of never reaches the program, but what a handler of signals dies of does.
sub _failed {
    my ($why) = @_;
    return if !ref $why && $why eq q{};
    Carp::croak( $why->message =~ s/\AStorable cannot write this value: //r )
        if blessed $why && $why->isa('Pinyon::Error::Unpicklable');
    die $why if !blessed $why || !$why->isa('Pinyon::Error');
    return;
}

# A time as memcached has it: seconds, or a Unix time.
sub _ttl {
    my ($given) = @_;
    return 0 if !$given;
    my $seconds = int $given;
    return $seconds if $seconds <= LONGEST_RELATIVE;
    my $left = $seconds - time;
    return $left > 0 ? $left : -1;
}

# A number of incr and decr, which the server takes modulo 2**64.
sub _number {
    my ($given) = @_;
    return 1 if !defined $given;
    no warnings 'numeric';    ## no critic (ProhibitNoWarnings)
    my $number = int $given;
    return $number < 0 ? $number & ~0 : $number;
}

sub _counted {
    my ($number) = @_;
    return defined $number ? $number || '0E0' : q{};
}

sub _is_unread {
    my ($why) = @_;
    return $why->isa('Pinyon::Error::UndecodableValue') || $why->isa('Pinyon::Error::ValueTooLarge');
}

sub _is_unreadable {
    my ($value) = @_;
    return ref $value && $value == $Pinyon::Compat::Stored::UNREADABLE;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Compat::Common - what the clients of Pinyon::Compat make of arguments and failures: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Compat::Cache_Memcached_Fast>.

=cut
