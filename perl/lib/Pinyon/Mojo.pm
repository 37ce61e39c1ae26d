package Pinyon::Mojo;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Loop            ();
use Pinyon::Loop::Cache     ();
use Pinyon::Loop::Locks     ();
use Pinyon::Loop::Migrating ();

BEGIN { Pinyon::Loop::needs(qw(Pinyon::Mojo Mojo::IOLoop Mojo::Promise)) }

package Pinyon::Mojo::Model;

use Scalar::Util qw(blessed);

# Takes the loop off the settings; without it the one loop of the process is used.
sub _take_loop {
    my ( $class, $arguments ) = @_;
    for ( my $index = @{$arguments} % 2; $index < @{$arguments}; $index += 2 ) {
        next if $arguments->[$index] ne 'loop';
        my ( undef, $loop ) = splice @{$arguments}, $index, 2;
        return $loop if blessed $loop && $loop->isa('Mojo::IOLoop');
        Pinyon::Error::Usage->throw('loop is a Mojo::IOLoop');
    }
    return Mojo::IOLoop->singleton;
}

sub _closures {
    my ( $self, $when_ready, $turn, $expire ) = @_;
    my $loop    = $self->{host};
    my $reactor = $loop->reactor;
    my ( @handles, $alarm );
    return (
        sub {
            my ( $lane, $descriptor, $write ) = @_;
            if ( !$handles[$lane] ) {

                # A copy of the descriptor, for a handle closes its own.
                open my $handle, '+<&', $descriptor    ## no critic (RequireBriefOpen)
                    or Pinyon::Error::Connect->throw("cannot copy a descriptor: $!");
                $handles[$lane] = $handle;
                $reactor->io( $handle => $when_ready->($lane) );
            }
            $reactor->watch( $handles[$lane], 1, $write ? 1 : 0 );
        },
        sub {
            my ($lane) = @_;
            my $handle = delete $handles[$lane] or return;
            $reactor->remove($handle);
        },
        sub { $reactor->next_tick($turn) },
        sub {
            $reactor->remove($alarm) if defined $alarm;
            $alarm = $reactor->timer( $_[0] => sub { $alarm = undef; $expire->() } );
        },
    );
}

sub _after {
    my ( $self, $seconds, $code ) = @_;
    my $reactor = $self->{host}->reactor;
    return Pinyon::Loop::Timer->new( $reactor->timer( $seconds => $code ), sub { $reactor->remove( $_[0] ) } );
}

sub _promise {
    my ($self) = @_;
    my $promise = Mojo::Promise->new->ioloop( $self->{host} );
    return (
        $promise,
        sub {
            my ( $value, $error ) = @_;
            return defined $error ? $promise->reject($error) : $promise->resolve($value);
        }
    );
}

sub _when {
    my ( $self, $value, $callback ) = @_;
    return $callback->( $value, undef ) if !( blessed $value && $value->can('then') );
    $value->then( sub { $callback->( $_[0], undef ) }, sub { $callback->( undef, $_[0] ) } );
    return;
}

package Pinyon::Mojo::Cache;

our @ISA = qw(Pinyon::Mojo::Model Pinyon::Loop::Cache);    ## no critic (ProhibitExplicitISA)

package Pinyon::Mojo::MigratingCache;

our @ISA = qw(Pinyon::Loop::Migrating Pinyon::Mojo::Cache Pinyon::MigratingCache);    ## no critic (ProhibitExplicitISA)

package Pinyon::Mojo::Locks;

our @ISA = qw(Pinyon::Mojo::Model Pinyon::Loop::Locks);                               ## no critic (ProhibitExplicitISA)

1;

__END__

=encoding utf8

=head1 NAME

Pinyon::Mojo - caches and locks that return promises, for Mojolicious

=head1 SYNOPSIS

    use Mojo::IOLoop;
    use Pinyon::Mojo;

    my $cache = Pinyon::Mojo::Cache->new(servers => '127.0.0.1:11211');
    $cache->set('user:1' => 'Ada')->then(sub { $cache->get('user:1') })->then(sub {
        my ($name) = @_;
        say $name;    # Ada
    })->wait;

=head1 DESCRIPTION

C<Pinyon::Mojo::Cache> and C<Pinyon::Mojo::Locks> have the constructors and methods of L<Pinyon::Cache>, L<Pinyon::Locks>, and the
objects that these return, but each method that would block returns a promise. The setting C<loop> names the loop, a L<Mojo::IOLoop>;
by default it is the loop of the process.

Each method also takes C<< cb => sub { my ($value, $error) = @_ } >>, as in L<Pinyon::AnyEvent>, whose page lists how
methods differ from blocking ones. The sub of C<get_or_set>, and that of C<synchronized>, may return a promise.

=head1 ERRORS

If a call fails, also because of wrong arguments, its promise fails. Errors are those of L<Pinyon::Error>, with the file and line of
the call. If Mojolicious is not installed, loading this module dies with L<Pinyon::Error::Unsupported|Pinyon::Error>.
