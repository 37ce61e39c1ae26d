package Pinyon::Permits;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

# `permits` of Pinyon::Locks makes them.
sub _new {
    my ( $class, $locks, $pool, %options ) = @_;
    my ( $limit, $n ) = ( delete $options{limit}, delete $options{n} // 1 );
    Pinyon::Error::Usage->throw('permits takes the limit of its pool: limit => 10') if !defined $limit;
    $locks->_tell_permits( $pool, $n, $limit );
    return bless { locks => $locks, pool => $pool, limit => $limit, n => $n, options => \%options }, $class;
}

sub pool  { my ($self) = @_; return $self->{pool} }
sub limit { my ($self) = @_; return $self->{limit} }
sub n     { my ($self) = @_; return $self->{n} }

sub lock {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, @arguments ) = @_;
    return $self->{locks}->lock( [], $self->_options, @arguments );
}

sub try_lock {
    my ( $self, @arguments ) = @_;
    my %options = $self->_options;
    delete $options{timeout};
    return $self->{locks}->try_lock( [], %options, @arguments );
}

sub synchronized {
    my ( $self, $code, @arguments ) = @_;
    return $self->{locks}->synchronized( [], $code, $self->_options, @arguments );
}

sub available {
    my ( $self, @arguments ) = @_;
    return $self->{locks}->_available( @{$self}{qw(pool limit)}, @arguments );
}

sub _options {
    my ($self) = @_;
    return ( permits => { $self->{pool} => [ @{$self}{qw(n limit)} ] }, %{ $self->{options} } );
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Permits - permits of a pool, of which only so many are held at the same time

=head1 SYNOPSIS

    use Pinyon;

    my $locks  = Pinyon::Locks->new('redis://127.0.0.1:6379/0');
    my $stripe = $locks->permits('stripe', limit => 10, timeout => 5);
    {
        my $lock = $stripe->lock;
        # … until the end of the scope
    }
    say $stripe->available;    # 10

=head1 DESCRIPTION

C<permits> of L<Pinyon::Locks> returns this object. It holds nothing: each call of C<lock> acquires permits of its own. All programs
that share the server share the pool. Callers acquire permits in the order in which they asked. What a dead holder had is available
again after its ttl.

In an event loop, the methods that ask the server take C<cb> and return what other methods of C<Locks> return there.

=head1 METHODS

=head2 lock(%options)

Acquires the permits, and returns a L<Pinyon::Lock>, which releases them at the end of its scope. The options are those of C<lock> of
L<Pinyon::Locks>. They add to those of C<permits>.

=head2 try_lock(%options)

Like C<lock>, if enough permits are available now; returns C<undef> otherwise.

=head2 synchronized($sub, %options)

Holds the permits while the sub runs, and returns what the sub returns.

=head2 available

Returns how many permits nobody holds now. Callers that wait may acquire them first.

=head2 pool, limit, n

The name of the pool, its limit as you passed it to C<permits>, and how many permits C<lock> acquires.

=cut
