package Pinyon::MigratingCache;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(blessed);

use Pinyon::Cache ();

our @ISA = ('Pinyon::Cache');    ## no critic (ProhibitExplicitISA)

my ( $made, %pools ) = (0);      # the clients of both pools, by the number of what migrates between them

sub new {
    my ( $class, $old, $new, %settings ) = @_;
    _check_clients( $old, $new );
    my $ttl = delete $settings{ttl};
    for my $name ( sort keys %settings ) {
        Pinyon::Error::Usage->throw(qq{$class has no setting "$name"});
    }
    my $number = ++$made;
    my $self   = bless { old => $old, new => $new, serializer => $new->{serializer} }, $class;
    $self->{on_event} = sub { $_->_tell for $old, $new }
        if $old->{on_event} || $new->{on_event};
    $pools{$number} = [ $old, $new ];
    $self->{registered} = Pinyon::MigratingCache::Registered->new($number);
    $self->_attach_migrating( $old, $new, $ttl, $number );
    return $self;
}

sub _check_clients {
    my (@clients) = @_;
    for my $client ( @clients[ 0, 1 ] ) {
        next if blessed $client && $client->isa('Pinyon::Cache');
        Pinyon::Error::Usage->throw('a migrating client takes the client of the old pool, that of the new one, and settings');
    }
    return;
}

sub using {
    my ( $self, %settings ) = @_;
    my $view = Pinyon::Cache::using( $self, %settings );
    $view->_attach_old( $self->{old} );
    return $view;
}

sub close {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self) = @_;
    $_->close for @{$self}{qw(old new)};
    return;
}

sub quiet {
    Pinyon::Error::Usage->throw('a migrating client has no quiet batches: use set_multi and delete_multi');
    return;
}

# Each client tells its own events.
sub _tell {
    my ($self) = @_;
    $_->_tell for grep { $_->{on_event} } @{$self}{qw(old new)};
    return;
}

# A value of the old pool as bytes and flags for the new one.
sub _convert {
    my ( $number, $bytes, $flags ) = @_;
    my ( $old, $new ) = @{ $pools{$number} };
    return $new->_to_store( $old->_value_of( $bytes, $flags ) );
}

package Pinyon::MigratingCache::Registered;

# Knows the clients of both pools until the last view is gone.
sub new {
    my ( $class, $number ) = @_;
    return bless { number => $number }, $class;
}

sub DESTROY {
    my ($self) = @_;
    delete $pools{ $self->{number} };
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::MigratingCache - an old and a new pool of servers as one cache

=head1 SYNOPSIS

    use Pinyon;

    my $old   = Pinyon::Cache->new(servers => '127.0.0.1:11211', dialect => 'cache-memcached-fast', serializer => 'storable');
    my $new   = Pinyon::Cache->new(servers => '127.0.0.1:11211', namespace => 'new:');
    my $cache = Pinyon::MigratingCache->new($old, $new);

    $old->set(greeting => 'hello', 60);
    say $cache->get('greeting');            # hello
    say $new->get('greeting');              # hello
    say "$_: ", $cache->progress->{$_} for qw(new old moved refused missing);

=head1 DESCRIPTION

With this class you can change servers, the ring or the format of values without starting from an empty cache. A read asks the
new pool first, then the old one. If only the old pool has the value, Pinyon moves it with its remaining ttl. A write goes to the
new pool and deletes the item in the old one. The page on migrating in Pinyon's documentation explains each step.

The class has the methods of L<Pinyon::Cache>, except C<quiet>. Its errors are those of the two clients, and each client keeps its
own rules for failures. If the new client cannot store a value, such as an object that only Storable can store, reads return it
from the old pool as long as that pool exists.

C<Pinyon::AnyEvent::MigratingCache>, C<Pinyon::Coro::MigratingCache>, C<Pinyon::Future::MigratingCache> and
C<Pinyon::Mojo::MigratingCache> do the same in event loops. They take two clients of the same module.

=head1 METHODS

=head2 new($old, $new, ttl => $seconds)

C<ttl> applies to moved items if the old servers cannot report their ttl, as before memcached 1.6.10; 0 never expires. C<new> dies
with a usage error if both clients would use the same keys on the same server: give the new client a namespace.

=head2 progress

Returns a reference to a hash of counts: keys that the C<new> pool had, that only the C<old> pool had, that were C<moved>, that the
new client or its server C<refused>, and that were C<missing> in both. When C<old> no longer grows, you can turn off the old
servers.

=head2 version, stats($kind), flush_all($delay), metrics

These apply to both pools. Reads ask the servers, not what C<near> keeps in memory; C<near_metrics> is the new client's.

=head2 using(%settings)

Returns a view that consists of the same views of both clients. It shares the counts of C<progress>.

=head2 close

Closes both clients.

=head2 quiet

Dies, because what a command does here depends on the result of the command before it.

=head1 SEE ALSO

L<Pinyon::Cache>

=cut
