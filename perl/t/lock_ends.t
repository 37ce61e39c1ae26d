use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(have_server locks redis);
use Ways;

# How locks end: jobs that run once, hand-overs and shutdown.

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

# Longer than any test.
use constant LONG => 3600;

my ( $locks, $others ) = ( locks(), locks() );

sub died_of(&) {    ## no critic (ProhibitSubroutinePrototypes)
    my ($block) = @_;
    return eval { $block->(); 1 } ? undef : $@;
}
sub never { die "it ran again\n" }

subtest 'a sub that goes on after the loss of its lock ends quietly' => sub {
    my $is_certain = $locks->synchronized(
        'a',
        sub {
            my ($lock) = @_;
            ok $lock->is_certain;
            $locks->execute( 'DEL', "{t$$}:l:a" );
            ok !$lock->extend(5);
            return $lock->is_certain;
        },
        on_failure => 'proceed'
    );
    ok !$is_certain;
    is $locks->metrics->{proceeded}, 1;
    my $error = died_of {
        $locks->synchronized( 'a', sub { $locks->force_release('a') }, on_failure => 'proceed' )
    };
    isa_ok $error, 'Pinyon::Error::LockLost';
    $error = died_of { $locks->lock( 'a', on_failure => 'ignore' ) };
    is $error->kind, 'UsageError';
    like $error->message, qr/on_failure must be "raise" or "proceed", not "ignore"/;
};

subtest 'a job runs once per period' => sub {
    my $token = $locks->once(
        nightly => sub {
            my ($lock) = @_;
            is_deeply [ $others->once( nightly => \&never, per => LONG ) ], [], 'not beside itself';
            return $lock->token;
        },
        per => LONG
    );
    cmp_ok $token, '>', 0, 'what its sub returns';
    is scalar( $_->once( nightly => \&never, per => LONG ) ), undef, 'not again' for $locks, $others;
    is_deeply [ $locks->once( list => sub { ( 1, 2 ) }, per => LONG ) ], [ 1, 2 ], 'in list context, a list';
    is $others->force_release( [qw(nightly list)] ), 2, 'the names stayed locked';
    isa_ok died_of { $locks->once( nightly        => \&never ) }, 'Pinyon::Error::Usage';
    isa_ok died_of { $locks->once( 'nightly', per => LONG ) },    'Pinyon::Error::Usage';
};

subtest 'a job that dies may run again at once' => sub {
    is died_of {
        $locks->once( failing => sub { die "it fails\n" }, per => LONG )
    }, "it fails\n";
    is $locks->once( failing => sub { 'made' }, per => LONG ), 'made';
    ok $locks->is_locked('failing');
    isa_ok died_of {
        $locks->once( lost => sub { $locks->force_release('lost') }, per => LONG )
    }, 'Pinyon::Error::LockLost';
};

subtest 'a lock is handed over' => sub {
    my ( $ticket, $first );
    {
        my $lock = $locks->lock( [ 'a', 'b c' ], on_lost => \&never );
        ( $first, $ticket ) = ( $lock->token, $lock->hand_over );
        ok !$lock->is_held && !$lock->is_lost && $lock->is_released, 'it is not held here any more';
        like died_of { $lock->check }, qr/handed over/;
    }
    ok $others->is_locked('a'), 'and is not free';
    my $adopted = $others->adopt( "$ticket\n", ttl => 60 );
    is_deeply [ $adopted->names ], [ 'a', 'b c' ];
    cmp_ok $adopted->token, '>', $first;
    like died_of { $locks->adopt($ticket) }, qr/ticket was used/;
    isa_ok died_of { $locks->adopt( substr $ticket, 0, -2 ) }, 'Pinyon::Error::Usage';
    undef $adopted;
    ok !$locks->is_locked( [ 'a', 'b c' ] );
};

subtest 'all are released' => sub {
    my @lost;
    my @held = map {
        $locks->lock( $_, on_lost => sub { push @lost, ( $_[0]->names )[0] } )
    } qw(a b);
    is $locks->release_all(60), 2;
    is $locks->release_all,     0;
    $held[0]->remaining;
    is_deeply [ sort @lost ], [qw(a b)], 'their holders are told';
    ok !$others->is_locked( [qw(a b)] );

    my $closed = locks();
    my $lock   = $closed->lock('a');
    $closed->close( release => 1 );
    ok !$others->is_locked('a'), 'closing releases, too';
};

for my $way ( map { $_->new } qw(Ways::Coro Ways::AnyEvent Ways::Future) ) {
    SKIP: {
        my $missing = $way->missing;
        skip "$missing does not load", 1 if $missing;
        subtest ref $way, sub { ends_of($way) };
    }
}

sub ends_of {
    my ($way) = @_;
    my %own   = ( namespace => "t$$" . ref $way, ttl => LONG );
    my $loop  = $way->locks( 'unix://' . redis()->{address}, %own );
    my $got   = sub { $way->got(@_) };
    is $got->( scalar $loop->once( nightly => sub { 'made' }, per => LONG ) ), 'made';
    is $got->( scalar $loop->once( nightly => \&never,        per => LONG ) ), undef;
    like died_of {
        $got->( scalar $loop->once( failing => sub { die "it fails\n" }, per => LONG ) )
    }, qr/\Ait fails\n/;
    is $got->( scalar $loop->once( failing => sub { 'made' }, per => LONG ) ), 'made';
    my $held = $got->( scalar $loop->lock('a') );
    $held = $got->( scalar $loop->adopt( $got->( scalar $held->hand_over ) ) );
    is $got->( scalar $loop->release_all(60) ), 1;
    $held = $got->( scalar $loop->lock('a') );
    $got->( scalar $loop->close( release => 1 ) );
    ok !locks(%own)->is_locked('a');
    return;
}

done_testing;
