use 5.016;
use strict;
use warnings;

use Config;
use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Servers qw(have_server memcached program redis);

# What a new thread of Perl's gets of the objects that the others have. Each case is a program, because Perl ends it where it
# goes wrong.

plan skip_all => 'this perl has no threads' if !$Config{useithreads};
for my $needed (qw(memcached redis-server)) {
    plan skip_all => "$needed is not installed" if !have_server($needed);
}

# EV's objects do not outlive a thread.
$ENV{PERL_ANYEVENT_MODEL} = 'Perl';    ## no critic (RequireLocalizedPunctuationVars)

sub says {
    my ( $name, $code, @expected ) = @_;
    my $common = <<'CODE';
use strict; use warnings; use threads; use Pinyon;
my ( $memcached, $redis ) = @ARGV;
sub in_thread { my ($code) = @_; return threads->create($code)->join }
CODE
    my ( $said, $status ) = program( $common . $code, memcached()->{address}, 'unix://' . redis()->{address} );
    is_deeply [ split /^/, $said ], [ map { "$_\n" } @expected ], $name;
    is $status, 0, 'and it ends well';
    return;
}

says 'commands that are not waited for', <<'CODE', '2 3';
require Pinyon::Compat::Cache_Memcached_Fast;
my $memd = Pinyon::Compat::Cache_Memcached_Fast->new( { servers => [$memcached], nowait => 1 } );
$memd->set( a => 1 );
in_thread( sub { $memd->set( b => 2 ); $memd->set( c => 3 ); $memd->nowait_push; } );
print join( q{ }, map { $memd->get($_) } qw(b c) ), "\n";
CODE

says 'a lock that is to tell of its loss stays with its thread', <<'CODE', 'another thread', 'told there', 'held', 'told here';
my $locks = Pinyon::Locks->new($redis);
my $lock  = $locks->lock( threads => on_lost => sub { print "told here\n" } );
in_thread(
    sub {
        my $own = $locks->lock( other => on_lost => sub { print "told there\n" } );
        print $@ =~ /(another thread)/, "\n" if !eval { $lock->check };
        $locks->force_release('other');
        select undef, undef, undef, 0.01 while $own->is_held;
    }
);
print $lock->is_held ? "held\n" : "lost\n";
$locks->force_release('threads');
select undef, undef, undef, 0.01 while $lock->is_held;
CODE

says 'a lock that a thread leaves in a package variable is released at its end', <<'CODE', 'free';
my $locks = Pinyon::Locks->new($redis);
in_thread( sub { our $lock = $locks->lock('left'); return } );
print $locks->is_locked('left') ? "locked\n" : "free\n";
CODE

says 'a lease stays with its thread', <<'CODE', 'filling';
my $cache = Pinyon::Cache->new( servers => $memcached );
my $lease = $cache->lease('threads');
in_thread( sub { undef $lease } );
print $cache->lease('threads')->state, "\n";
CODE

SKIP: {
    skip 'AnyEvent is not installed', 1 if !eval { require AnyEvent; 1 };
    says 'clients of an event loop stay with their thread', <<'CODE', ('another thread') x 3, 'told';
require Pinyon::AnyEvent;
my $cache = Pinyon::AnyEvent::Cache->new( servers => $memcached );
my $locks = Pinyon::AnyEvent::Locks->new($redis);
my $lock  = $locks->lock('loops')->recv;
$lock->on_lost( sub { print "told\n" } );
my $lease = $cache->lease('loops')->recv;
in_thread(
    sub {
        for my $call ( sub { $cache->get('a')->recv }, sub { $cache->get_or_set( a => sub { 1 } )->recv }, sub { $lock->check } ) {
            print $@ =~ /(another thread)/, "\n" if !eval { $call->(); 1 };
        }
    }
);
$locks->force_release('loops')->recv;

my $told = AE::cv(); my $timer2 = AE::timer( 0, 0.01, sub { $told->send if !$lock->is_held } ); $told->recv;
CODE
}

done_testing;
