package Dancer2::Session::Pinyon;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Moo;
use Pinyon ();

has cache => ( is => 'ro', init_arg => undef, writer => '_set_cache' );

# Why the last session could not be read, if it was not a miss.
has _failure => ( is => 'rw', init_arg => undef );

with 'Dancer2::Core::Role::SessionFactory';

# What Dancer2 passes to every session engine.
my %OF_DANCER = map { $_ => 1 } qw(session_dir postponed_hooks);

# All options that neither Dancer2 nor its session engines have are settings of the cache.
sub BUILD {
    my ( $self, $given ) = @_;
    my %settings = map { $_ => $given->{$_} } grep { !$OF_DANCER{$_} && !$self->can($_) } keys %{$given};
    if ( $self->has_session_duration ) {
        $settings{default_ttl} = $self->session_duration;
    }
    $self->_set_cache( Pinyon::Cache->new( { namespace => 'session:', failover => 0, %settings } ) );
    return;
}

# Dancer2 takes any failure for a session that is not there, and the visitor would be logged out.
around retrieve => sub {
    my ( $retrieve, $self, @arguments ) = @_;
    $self->_failure(undef);
    my $session = eval { $self->$retrieve(@arguments) };
    my $error   = $self->_failure || $@;
    return $session || die $error;
};

sub _retrieve {
    my ( $self, $id ) = @_;
    my $data;
    if ( !eval { $data = $self->cache->get($id); 1 } ) {
        $self->_failure($@);
    }
    return $data;
}

sub _flush {
    my ( $self, $id, $data ) = @_;
    return $self->cache->set( $id => $data );
}

sub _change_id {
    my ( $self, $old, $new ) = @_;
    my $data = $self->cache->get($old) or return;
    $self->cache->set( $new => $data );
    return $self->cache->delete($old);
}

sub _destroy {
    my ( $self, $id ) = @_;
    return $self->cache->delete($id);
}

# memcached does not list what it has.
sub _sessions { return [] }

1;

__END__

=encoding utf-8

=head1 NAME

Dancer2::Session::Pinyon - sessions of Dancer2 on memcached, by Pinyon

=head1 SYNOPSIS

    use Dancer2;

    set engines => { session => { Pinyon => { servers => ['127.0.0.1:11211'], session_duration => 86_400 } } };
    set session => 'Pinyon';

    get '/' => sub { session visits => ( session('visits') // 0 ) + 1; return session('visits') };

=head1 DESCRIPTION

In a configuration file:

    session: Pinyon
    engines:
      session:
        Pinyon:
          servers: [ "10.0.0.1:11211", "10.0.0.2:11211" ]
          session_duration: 86400
          timeout: 0.5

In addition to the options of every session engine (L<Dancer2::Config/Session-engine>), this engine takes the settings of
L<Pinyon::Cache>. By default, C<namespace> is C<session:>, and C<failover> is off. C<session_duration> is how long an unused session
stays, in seconds. Without it, memcached drops the oldest sessions when it needs memory.

A session can contain strings, numbers, and references to arrays and hashes of these. For objects, set C<serializer> to
C<storable>. memcached cannot list sessions, so C<sessions> of the engine is always empty.

If the server of a session fails, the request fails, and the visitor keeps the session. With C<< on_failure => 'miss' >>, the
request gets a new session instead.

=head1 METHODS

=head2 cache

The L<Pinyon::Cache>.

=head2 retrieve, BUILD

For Dancer2.

=head1 SEE ALSO

L<Dancer2>, L<Pinyon::Cache>

=cut
