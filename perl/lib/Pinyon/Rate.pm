package Pinyon::Rate;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon ();

my %KNOWN = map { $_ => 1 } qw(limit per burst);

sub _new {
    my ( $class, $locks, $name, %options ) = @_;
    if ( my ($unknown) = grep { !$KNOWN{$_} } sort keys %options ) {
        Pinyon::Error::Usage->throw(qq{rate has no option "$unknown": it has limit, per and burst});
    }
    if ( my ($missing) = grep { !defined $options{$_} } qw(limit per) ) {
        Pinyon::Error::Usage->throw("a rate needs $missing: rate(\$name, limit => 100, per => 60)");
    }
    if ( defined $options{burst} && !$options{burst} ) {
        Pinyon::Error::Usage->throw('burst must be at least 1, not 0: without it, it is the limit');
    }
    return bless { %options, burst => $options{burst} // $options{limit}, locks => $locks, name => $name }, $class;
}

sub name  { return $_[0]{name} }
sub limit { return $_[0]{limit} }
sub per   { return $_[0]{per} }
sub burst { return $_[0]{burst} }

sub allow {
    my ( $self, @arguments ) = @_;
    my $count = @arguments % 2 ? shift @arguments : 1;
    return $self->{locks}->_rated( $self, $self->_terms( $count, undef, 0 ), @arguments );
}

sub wait {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, @arguments ) = @_;
    my $count   = @arguments % 2 ? shift @arguments : 1;
    my %options = @arguments;
    my $timeout = delete $options{timeout};
    return $self->{locks}->_rated( $self, $self->_terms( $count, $timeout, 1 ), %options );
}

sub _terms {
    my ( $self, @asked ) = @_;
    return [ @{$self}{qw(limit per burst)}, @asked ];
}

sub _result {
    my ( $self, $fields ) = @_;
    return bless { %{$fields}, limit => $self->{limit} }, 'Pinyon::Rate::Result';
}

package Pinyon::Rate::Result;

use overload 'bool' => sub { $_[0]{allowed} }, q{""} => \&_text, fallback => 1;

sub allowed     { return $_[0]{allowed} }
sub limit       { return $_[0]{limit} }
sub remaining   { return $_[0]{remaining} }
sub retry_after { return $_[0]{retry_after} }
sub reset       { return $_[0]{reset} }         ## no critic (ProhibitBuiltinHomonyms)

sub _text {
    my ($self) = @_;
    return "allowed, $self->{remaining} of $self->{limit} remain" if $self->{allowed};
    return "not allowed, retry after $self->{retry_after} s";
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Rate - how many permits a name gives in a time, for all programs

=head1 SYNOPSIS

    use Pinyon;

    my $locks = Pinyon::Locks->new('redis://127.0.0.1:6379/0', namespace => 'app');
    my $rate  = $locks->rate( 'api:7', limit => 100, per => 60, burst => 20 );
    say $rate->allow ? 'go on' : 'later';    # go on

=head1 DESCRIPTION

A rate gives a permit every C<per> / C<limit> seconds. If none was taken for a while, it gives up to C<burst> at once. The
server counts, by its clock. L<Pinyon::Locks/rate> makes rates. In event loops, the methods return what other methods of the client
do, and take a callback C<cb>.

=head1 METHODS

=head2 allow($n)

Takes C<$n> permits, by default one, if they are there. Returns a result, which is true if they were. It is one command, and never
waits for permits. If the connection breaks meanwhile, the permits may have been taken: nothing is repeated. Dies with
C<Pinyon::Error::Usage> if C<$n> is more than C<burst>, so that the answer would never be yes.

A result is a hash: C<allowed>, C<limit>, C<remaining> (permits that it would give at once now), C<retry_after> (seconds until it gives
as many as were asked for, C<undef> if it gave them) and C<reset> (seconds until the whole burst is there again). There is a method
for each.

=head2 wait($n, timeout => $seconds)

Waits for permits, first come, first served, and takes them. They are reserved at once, with one command, and the method returns when
their time has come. If that would be after C<timeout>, by default the client's setting, it dies at once with
C<Pinyon::Error::LockTimeout>, and takes nothing. A wait that is given up has used its permits.

=head2 name, limit, per, burst

What the rate was made of.

=cut
