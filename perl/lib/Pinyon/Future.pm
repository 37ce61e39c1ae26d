package Pinyon::Future;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Loop            ();
use Pinyon::Loop::Cache     ();
use Pinyon::Loop::Locks     ();
use Pinyon::Loop::Migrating ();

BEGIN { Pinyon::Loop::needs(qw(Pinyon::Future IO::Async::Loop Future)) }

package Pinyon::Future::Model;

use File::Spec   ();
use POSIX        ();
use Scalar::Util qw(blessed);

# Takes the loop off the settings; without it the one loop of the process is used.
sub _take_loop {
    my ( $class, $arguments ) = @_;
    for ( my $index = @{$arguments} % 2; $index < @{$arguments}; $index += 2 ) {
        next if $arguments->[$index] ne 'loop';
        my ( undef, $loop ) = splice @{$arguments}, $index, 2;
        return $loop if blessed $loop && $loop->isa('IO::Async::Loop');
        Pinyon::Error::Usage->throw('loop is an IO::Async::Loop');
    }
    return IO::Async::Loop->new;
}

sub _closures {
    my ( $self, $when_ready, $turn, $expire ) = @_;
    my $loop = $self->{host};
    my ( @watched, $alarm );
    my $forget = sub {
        my ($lane) = @_;
        my $watched = delete $watched[$lane] or return;
        my ( $handle, $write, $process ) = @{$watched};
        local $@;
        return if eval { $loop->unwatch_io( handle => $handle, on_read_ready => 1, on_write_ready => $write ); 1 };
        die $@ if $process == $$;
        _occupy($handle);
    };
    return (
        sub {
            my ( $lane, $descriptor, $write ) = @_;
            my $is_ready = $when_ready->($lane);
            if ( my $watched = $watched[$lane] ) {
                my $method = $write ? 'watch_io' : 'unwatch_io';
                $loop->$method( handle => $watched->[0], on_write_ready => $is_ready ) if $write != $watched->[1];
                $watched->[1] = $write;
                return;
            }

            # A copy of the descriptor, for a handle closes its own.
            open my $handle, '+<&', $descriptor    ## no critic (RequireBriefOpen)
                or Pinyon::Error::Connect->throw("cannot copy a descriptor: $!");
            $watched[$lane] = [ $handle, $write, $$ ];
            $loop->watch_io( handle => $handle, on_read_ready => $is_ready, $write ? ( on_write_ready => $is_ready ) : () );
        },
        $forget,
        sub { $loop->later($turn) },
        sub {
            $loop->unwatch_time($alarm) if defined $alarm;
            $alarm = $loop->watch_time( after => $_[0], code => sub { $alarm = undef; $expire->() } );
        },
    );
}

# In a forked child, IO::Async::Loop::Epoll cannot forget what its parent watched, and refuses those numbers to other handles.
# They stay in use, but not for the parent's connections.
my @occupied;

sub _occupy {
    my ($handle) = @_;
    open my $nothing, '<', File::Spec->devnull or die "cannot open @{[ File::Spec->devnull ]}: $!\n";
    POSIX::dup2( fileno $nothing, fileno $handle ) or die "cannot copy a descriptor: $!\n";
    close $nothing;
    push @occupied, $handle;
    return;
}

sub _after {
    my ( $self, $seconds, $code ) = @_;
    return Pinyon::Loop::Timer->new( $self->{host}->watch_time( after => $seconds, code => $code ),
        sub { $self->{host}->unwatch_time( $_[0] ) } );
}

sub _promise {
    my ($self) = @_;
    my $future = $self->{host}->new_future;
    return (
        $future,
        sub {
            my ( $value, $error ) = @_;
            return if $future->is_ready;
            return defined $error ? $future->fail($error) : $future->done($value);
        }
    );
}

# A cancelled future abandons what it waits for: a lock that comes all the same is given back.
sub _on_cancel {
    my ( $self, $future, $operation ) = @_;
    $future->on_cancel( sub { $operation->cancel } ) if !$future->is_ready;
    return;
}

sub _when {
    my ( $self, $value, $callback ) = @_;
    return $callback->( $value, undef ) if !( blessed $value && $value->isa('Future') );
    $value->on_ready(
        sub {
            my ($future) = @_;
            my $found;
            return $callback->( $found, undef ) if eval { $found = $future->get; 1 };
            return $callback->( undef,  $@ );
        }
    );
    $value->retain;
    return;
}

package Pinyon::Future::Cache;

our @ISA = qw(Pinyon::Future::Model Pinyon::Loop::Cache);    ## no critic (ProhibitExplicitISA)

package Pinyon::Future::MigratingCache;

our @ISA = qw(Pinyon::Loop::Migrating Pinyon::Future::Cache Pinyon::MigratingCache);    ## no critic (ProhibitExplicitISA)

package Pinyon::Future::Locks;

our @ISA = qw(Pinyon::Future::Model Pinyon::Loop::Locks);                               ## no critic (ProhibitExplicitISA)

1;

__END__

=encoding utf8

=head1 NAME

Pinyon::Future - caches and locks that return futures, for IO::Async and async/await

=head1 SYNOPSIS

    use IO::Async::Loop;
    use Pinyon::Future;

    my $loop  = IO::Async::Loop->new;
    my $cache = Pinyon::Future::Cache->new(servers => '127.0.0.1:11211', loop => $loop);
    my $name  = $cache->set('user:1' => 'Ada')->then(sub { $cache->get('user:1') });
    say $name->get;    # Ada

=head1 DESCRIPTION

C<Pinyon::Future::Cache> and C<Pinyon::Future::Locks> have the constructors and methods of L<Pinyon::Cache>, L<Pinyon::Locks>, and the
objects that these return, but each method that would block returns a future of the loop. The setting C<loop> names the loop, an L<IO::Async::Loop>;
by default it is the loop of the process. If you cancel a future, Pinyon abandons the operation.

Each method also takes C<< cb => sub { my ($value, $error) = @_ } >>, as in L<Pinyon::AnyEvent>, whose page lists how
methods differ from blocking ones. The sub of C<get_or_set>, and that of C<synchronized>, may return a future of the loop.

=head1 ERRORS

If a call fails, also because of wrong arguments, its future fails. Errors are those of L<Pinyon::Error>, with the file and line of
the call. If IO::Async is not installed, loading this module dies with L<Pinyon::Error::Unsupported|Pinyon::Error>.
