package ChiDriver;

# CHI's own tests of drivers, for the driver of this distribution.

use 5.016;
use strict;
use warnings;

use CHI::Test;
use Pinyon;
use Servers qw(memcached GENEROUS);

use parent qw(CHI::t::Driver);

sub testing_driver_class        { return 'ChiDriver::ThatLists' }
sub supports_get_namespaces     { return 0 }
sub supports_expires_on_backend { return 1 }

sub new_cache_options {
    my ($self) = @_;
    return (
        $self->SUPER::new_cache_options,
        clearable       => 1,
        servers         => [ memcached()->{address} ],
        timeout         => GENEROUS,
        connect_timeout => GENEROUS,
    );
}

sub test_without_clear : Tests(5) {
    my ($self) = @_;
    my $cache = CHI->new( driver => 'Pinyon', servers => [ memcached()->{address} ], namespace => 'plain' );
    $cache->set( "a key\n" => { name => 'Ada' }, '1 minute' );
    is_deeply( $cache->get("a key\n"),                          { name      => 'Ada' },                         'get' );
    is_deeply( $cache->get_multi_hashref( [ "a key\n", 'b' ] ), { "a key\n" => { name => 'Ada' }, b => undef }, 'get_multi' );
    throws_ok( sub { $cache->clear }, qr/not supported/, 'clear is refused' );
    $cache->remove("a key\n");
    is( $cache->get("a key\n"), undef, 'remove' );
    throws_ok( sub { $cache->get_keys }, qr/not supported/, 'keys cannot be listed' );
    return;
}

sub test_lost_generation : Tests(4) {
    my ($self) = @_;
    my ( $one, $other ) = map { $self->new_cache( namespace => 'lost' ) } 1, 2;
    my $plain = Pinyon::Cache->new( servers => [ memcached()->{address} ] );
    $one->set( a => 1 );
    is( $other->get('a'), 1, 'another process has the same generation' );
    $plain->delete('lost:!generation') or die 'the generation is elsewhere';
    is( $one->get('a'), undef, 'without it, nothing is found' );
    $other->set( a => 2 );
    is( $one->get('a'), 2, 'and a new one is shared' );
    $one->clear;
    is( $other->get('a'), undef, 'clear is for all' );
    return;
}

# memcached cannot list keys, which CHI's tests ask for: here, those that the tests use.
package ChiDriver::ThatLists;

use Moo;
extends 'CHI::Driver::Pinyon';

for my $method (qw(dump_as_hash is_empty purge)) {
    no strict 'refs';
    *{$method} = \&{"CHI::Driver::$method"};
}

sub get_keys {
    my ($self)  = @_;
    my ($keys)  = ChiDriver->set_standard_keys_and_values;
    my %is_used = map { $self->transform_key($_) => 1 } values %{$keys}, ChiDriver->extra_test_keys;
    my $found   = $self->fetch_multi_hashref( [ keys %is_used ] );
    return grep { defined $found->{$_} } keys %{$found};
}

# A test of CHI counts what a first-level cache still has after the cache behind it made room. Whatever is discarded behind leaves
# the first level too, so that the count depended on the order of a hash.
sub default_discard_policy { return 'distant' }

sub discard_policy_distant {
    my ($self)  = @_;
    my $near    = $self->can('l1_cache') && $self->l1_cache;
    my %is_near = map  { $_ => 1 } $near ? $near->get_keys : ();
    my @keys    = sort { ( $is_near{$a} // 0 ) <=> ( $is_near{$b} // 0 ) } $self->get_keys;
    return sub { return shift @keys };
}

1;
