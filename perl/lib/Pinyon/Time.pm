package Pinyon::Time;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

package Pinyon::Instant;

use overload
    q{""}    => sub { $_[0]->iso8601 },
    '0+'     => sub { $_[0][0] + $_[0][1] / 1e9 },
    bool     => sub { 1 },
    fallback => 1;

sub new {
    my ( $class, $epoch, $nanosecond ) = @_;
    return bless [ $epoch, $nanosecond // 0 ], $class;
}

sub epoch      { return $_[0][0] }
sub nanosecond { return $_[0][1] }

sub iso8601 {
    my ($self) = @_;
    my ( $second, $minute, $hour, $day, $month, $year ) = gmtime $self->[0];
    return sprintf '%04d-%02d-%02dT%02d:%02d:%02d%sZ', $year + 1900, $month + 1, $day, $hour, $minute, $second,
        Pinyon::Time::fraction( $self->[1] );
}

package Pinyon::DateTime;

use overload
    q{""}    => sub { $_[0]->iso8601 },
    bool     => sub { 1 },
    fallback => 1;

sub new {
    my ( $class, @fields ) = @_;
    return bless [ map { $_ // 0 } @fields[ 0 .. 6 ] ], $class;
}

sub year       { return $_[0][0] }
sub month      { return $_[0][1] }
sub day        { return $_[0][2] }
sub hour       { return $_[0][3] }
sub minute     { return $_[0][4] }
sub second     { return $_[0][5] }
sub nanosecond { return $_[0][6] }

sub iso8601 {
    my ($self) = @_;
    return sprintf( '%04d-%02d-%02dT%02d:%02d:%02d', @{$self}[ 0 .. 5 ] ) . Pinyon::Time::fraction( $self->[6] );
}

package Pinyon::Time;

sub fraction {
    my ($nanosecond) = @_;
    return $nanosecond ? sprintf( '.%09d', $nanosecond ) =~ s/(?:000)+$//r : q{};
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Time - Pinyon::Instant and Pinyon::DateTime, the times in stored values

=head1 SYNOPSIS

    use Pinyon;

    my $cache = Pinyon::Cache->new(servers => '127.0.0.1:11211');
    $cache->set(seen => Pinyon::Instant->new(1_709_210_096));
    say $cache->get('seen');    # 2024-02-29T12:34:56Z

=head1 DESCRIPTION

L<Pinyon> loads both classes. If another language stored a time in a value, you read it as an object of one of them. As a string,
an object is what C<iso8601> returns.

=head1 PINYON::INSTANT

A point in time. As a number, it is its seconds since 1970.

=head2 new($epoch, $nanosecond)

=head2 epoch, nanosecond

Whole seconds since 1970 in UTC, and nanoseconds after them.

=head2 iso8601

The time in UTC, such as C<2024-02-29T12:34:56Z>.

=head1 PINYON::DATETIME

A date and a time without a zone.

=head2 new($year, $month, $day, $hour, $minute, $second, $nanosecond)

=head2 year, month, day, hour, minute, second, nanosecond

=head2 iso8601

The date and time, such as C<2024-02-29T12:34:56>.

=head1 FUNCTIONS

=head2 fraction($nanosecond)

For these classes.

=cut
