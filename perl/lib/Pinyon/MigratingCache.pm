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

With it you can change servers, ring or the format of values without starting from an empty cache. Reads ask the new pool,
then the old one. A value that only the old pool has is moved with the rest of its ttl. Changes go to the new pool, and delete
the item in the old one. The page on migrating in Pinyon's documentation says what happens when.

It has the methods of L<Pinyon::Cache>, except C<quiet>. Its errors are those of the two clients. Each keeps its own rules
for failures. A value that the new client does not take, such as an object that only Storable can store, is read from the old
pool for as long as that exists.

C<Pinyon::AnyEvent::MigratingCache>, C<Pinyon::Coro::MigratingCache>, C<Pinyon::Future::MigratingCache> and
C<Pinyon::Mojo::MigratingCache> are the same for event loops: they take two clients of the same kind.

=head1 METHODS

=head2 new($old, $new, ttl => $seconds)

C<ttl> is that of moved items if the old servers cannot tell it, which those before memcached 1.6.10 cannot; 0 is without end.
Dies with a usage error if both clients would have the same keys on the same server: give the new one a namespace.

=head2 progress

A reference to a hash: how many keys the C<new> pool had, only the C<old> pool had, were C<moved> from there, were C<refused>
by the new client or its server, and were C<missing> in both. When C<old> no longer grows, the old servers can go.

=head2 version, stats($kind), flush_all($delay), metrics

Those of both pools.

=head2 using(%settings)

A view, with the same views of both clients. It counts together with the client.

=head2 close

Closes both clients.

=head2 quiet

Dies: what a command does depends on the result of the one before it.

=head1 SEE ALSO

L<Pinyon::Cache>

=cut
