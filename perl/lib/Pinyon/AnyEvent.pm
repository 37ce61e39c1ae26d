package Pinyon::AnyEvent;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Loop            ();
use Pinyon::Loop::Cache     ();
use Pinyon::Loop::Locks     ();
use Pinyon::Loop::Migrating ();

BEGIN { Pinyon::Loop::needs(qw(Pinyon::AnyEvent AnyEvent)) }

package Pinyon::AnyEvent::Model;

sub _closures {
    my ( $self, $when_ready, $turn, $expire ) = @_;
    my ( @watchers, $alarm );
    return (
        sub {
            my ( $lane, $descriptor, $write ) = @_;
            my $is_ready = $when_ready->($lane);
            $watchers[$lane] = [ AE::io( $descriptor, 0, $is_ready ), $write ? AE::io( $descriptor, 1, $is_ready ) : () ];
        },
        sub { $watchers[ $_[0] ] = undef },
        sub { &AE::postpone($turn) },
        sub { $alarm = AE::timer( $_[0], 0, $expire ) },
    );
}

# Calls after some seconds, unless what it returns is let go.
sub _after {
    my ( $self, $seconds, $code ) = @_;
    return AE::timer( $seconds, 0, $code );
}

sub _promise {
    my $condvar = AE::cv();
    return (
        $condvar,
        sub {
            my ( $value, $error ) = @_;
            return defined $error ? $condvar->croak($error) : $condvar->send($value);
        }
    );
}

# What a maker returns may be a condvar.
sub _when {
    my ( $self, $value, $callback ) = @_;
    return $callback->( $value, undef ) if !UNIVERSAL::isa( $value, 'AnyEvent::CondVar' );
    $value->cb(
        sub {
            my $found;
            return $callback->( $found, undef ) if eval { $found = $value->recv; 1 };
            return $callback->( undef,  $@ );
        }
    );
    return;
}

package Pinyon::AnyEvent::Cache;

our @ISA = qw(Pinyon::AnyEvent::Model Pinyon::Loop::Cache);    ## no critic (ProhibitExplicitISA)

package Pinyon::AnyEvent::MigratingCache;

our @ISA = qw(Pinyon::Loop::Migrating Pinyon::AnyEvent::Cache Pinyon::MigratingCache);    ## no critic (ProhibitExplicitISA)

package Pinyon::AnyEvent::Locks;

our @ISA = qw(Pinyon::AnyEvent::Model Pinyon::Loop::Locks);                               ## no critic (ProhibitExplicitISA)

1;

__END__

=encoding utf8

=head1 NAME

Pinyon::AnyEvent - caches and locks in AnyEvent, with callbacks and condvars

=head1 SYNOPSIS

    use AnyEvent;
    use Pinyon::AnyEvent;

    my $cache = Pinyon::AnyEvent::Cache->new(servers => '127.0.0.1:11211');
    my $done  = AnyEvent->condvar;
    $cache->set('user:1' => 'Ada', 60, cb => sub {
        my ($stored, $error) = @_;
        $done->send;
    });
    $done->recv;
    say $cache->get('user:1')->recv;    # Ada

    my $locks = Pinyon::AnyEvent::Locks->new('redis://127.0.0.1:6379/0');
    my $lock  = $locks->lock('account:1', timeout => 5)->recv;
    $lock->release->recv;

=head1 DESCRIPTION

C<Pinyon::AnyEvent::Cache> and C<Pinyon::AnyEvent::Locks> have the constructors and methods of L<Pinyon::Cache>, L<Pinyon::Locks>,
and the objects that these return. No method blocks. Each takes C<< cb => sub { my ($value, $error) = @_ } >> after its other
arguments, and calls it with an error, or with what the blocking method returns. With C<cb> a method returns an operation. If you
call C<cancel> of the operation, the callback is not called. Without C<cb> a method returns a condvar.

All operations that begin in one iteration of the loop leave in one system call for each server.

=head2 Where they differ

Methods for many keys return a reference to a hash. C<status> of several names returns a reference to an array. The sub of
C<get_or_set>, and that of C<synchronized>, may return a condvar; Pinyon waits for it. With C<soft_timeout> and C<< refresh => 'behind' >>, a
value that comes by a condvar may come after the caller has the old one. Each lock has an owner of its own, unless
C<owner> names one. Pinyon renews locks and reports losses while the loop runs.

=head1 ERRORS

C<cb> also receives errors about wrong arguments. Errors are those of L<Pinyon::Error>, with the file and line of the call. If
AnyEvent is not installed, loading this module dies with L<Pinyon::Error::Unsupported|Pinyon::Error>.
