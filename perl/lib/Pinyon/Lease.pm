package Pinyon::Lease;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

# How often a value that cannot be read is had replaced before this caller may replace it itself.
use constant RENEWALS => 2;

sub new {
    my ( $class, $client, $key, $found )  = @_;
    my ( $state, $token, $stays, @value ) = @{$found};
    ( $state, $stays ) = ( 'won', 1 ) if $state eq 'unreadable';
    my $self = bless {
        client    => $client,
        key       => $key,
        state     => $state,
        token     => $token,
        stays     => $stays,
        has_value => scalar @value,
        value     => $value[0],
        is_open   => $state eq 'won' && defined $token,
    }, $class;
    $self->_own( $client, $found ) if $self->{is_open};
    return $self;
}

sub key        { return $_[0]{key} }
sub state      { return $_[0]{state} }                 ## no critic (ProhibitBuiltinHomonyms)
sub value      { return $_[0]{value} }
sub has_value  { return $_[0]{has_value} ? 1 : q{} }
sub is_hit     { return $_[0]{state} eq 'hit' }
sub is_stale   { return $_[0]{state} eq 'stale' }
sub is_won     { return $_[0]{state} eq 'won' }
sub is_filling { return $_[0]{state} eq 'filling' }
sub is_open    { return $_[0]{is_open} ? 1 : q{} }

sub fulfil {
    my ( $self, $value, $ttl ) = @_;
    $self->_must_be_won;
    return q{} if !$self->{is_open};
    my $stored = $self->{client}->cas( $self->{key}, $value, $self->{token}, $ttl );
    $self->{is_open} = 0;
    return $stored ? 1 : q{};
}

sub give_back {
    my ($self) = @_;
    $self->_must_be_won;
    return q{} if !$self->{is_open};
    $self->{is_open} = 0;
    return $self->{client}->_give_back( $self->{key}, $self->{token}, $self->{stays} );
}

sub _must_be_won {
    my ($self) = @_;
    return if $self->is_won;
    Pinyon::Error::Usage->throw("fulfil and give_back need a lease that was won; this one is $self->{state}");
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Lease - a value, or the right to make it

=head1 SYNOPSIS

    use Pinyon;

    my $cache = Pinyon::Cache->new(servers => '127.0.0.1:11211');
    my $lease = $cache->lease('report');
    $lease->fulfil('the report', 60) if $lease->is_won;

=head1 DESCRIPTION

C<lease> of L<Pinyon::Cache> returns this object. If you won the lease and do not fulfil it, Pinyon gives it back at the end of
its scope.

=head1 METHODS

=head2 new

For L<Pinyon::Cache> only.

=head2 key, state, value, has_value

The state is C<hit> (the value is fresh), C<stale> (another caller makes a new one), C<won> (this caller must make it) or
C<filling> (there is none yet; another caller makes it).

=head2 is_hit, is_stale, is_won, is_filling

Return whether the lease is in that state.

=head2 is_open

Returns whether you can still fulfil the lease or give it back.

=head2 fulfil($value, $ttl)

Stores the value. Returns whether it was stored: false if the lease has ended, or if the item changed meanwhile.

=head2 give_back

Lets the next caller win the lease.

=cut
