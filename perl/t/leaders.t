use 5.016;
use strict;
use warnings;

use FindBin  qw($Bin);
use JSON::PP ();
use lib "$Bin/lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Pinyon;
use Servers qw(eventually have_server in_child locks root server GENEROUS);
use Ways    ();

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

# ---- Programs that wait ----
{
    my ( $first, $second ) = map { locks() } 1 .. 2;
    my @called;
    my %callbacks = ( on_elected => sub { push @called, [ elected => @_ ] }, on_lost => sub { push @called, [ lost => @_ ] } );
    my $leader    = $first->leader( 'a', %callbacks );
    my $other     = $second->leader('a');
    is $leader->state, 'stopped', 'it is not started';
    ok $leader->run(GENEROUS) || 1;
    ok $leader->is_leader, 'the first candidate leads';
    ok !$other->run(0.2),  'the second one does not';
    is $other->state,            'candidate',    'it is a candidate';
    is $other->current->{token}, $leader->token, 'it sees who leads';
    is_deeply \@called, [ [ elected => $leader->token ] ], 'the callback has the token';
    my $token = $leader->token;
    ok $leader->resign,     'it resigns';
    ok !$leader->is_leader, 'and leads no more at once';
    $leader->run(0);
    is_deeply $called[1], [ lost => $token ], 'on_lost is called';
    ok $other->run(1), 'the other one leads' if $leader->stop;
    ok $other->stop,   'it stops';
    is $other->current, undef, 'nobody leads';

    ok $leader->run(0.1), 'it leads again';
    $second->force_release('a');
    eventually { !$leader->is_leader };
    $leader->run(0);
    is $called[-1][0], $leader->is_leader ? 'elected' : 'lost', 'it was told of the loss';
    $leader->stop;
    is scalar( grep { $_->[0] eq 'elected' } @called ), scalar( grep { $_->[0] eq 'lost' } @called ), 'each election has ended';

    my $failing = $first->leader( 'b', on_elected => sub { die "the test wants it\n" } );
    my @warned;
    {
        local $SIG{__WARN__} = sub { push @warned, @_ };
        ok !$failing->run(0.1), 'one whose callback fails does not lead';
    }
    is $failing->state, 'paused', 'but pauses';
    like "@warned", qr/on_elected of the leader "b" failed: the test wants it/, 'its failure is told';
    ok $failing->stop, 'it stops at once';
    ok !eval {
        $first->leader( 'a', on_gone => sub { } );
        1;
    } && $@ =~ /no option "on_gone"/, 'unknown options are refused';
    ok !eval { $first->leader( 'a', on_lost => 1 ); 1 } && $@ =~ /reference to a sub/, 'so are callbacks that are none';

    {
        my @warnings;
        local $SIG{__WARN__} = sub { push @warnings, @_ };
        my $third  = locks( ttl => 1 );
        my $closed = $third->leader('c');
        ok $closed->run(0.1), 'it leads';
        $third->close;
        $closed->run(0);
        is $closed->state, 'stopped', 'it ends when its client is closed';
        undef $closed;
        is "@warnings", q{}, 'and does not warn: its lock ends with its ttl';
    }

    ok $leader->run(0.1), 'it leads';
    my $in_child = in_child { join q{ }, $leader->is_leader ? 1 : 0, $leader->state };
    is $in_child, '0 stopped', 'a forked child does not';
    ok $leader->is_leader, 'its parent goes on';
    $leader->stop;
}

# ---- Event loops: the scenarios ----

use constant PATIENCE => 30;

my %models = (
    coro     => Ways::Coro->new,
    anyevent => Ways::AnyEvent->new,
    future   => Ways::Future->new,
    mojo     => Ways::Mojo->new,
);

sub scenarios {
    open my $file, '<:raw', root() . '/scenarios/leaders.json' or die "leaders.json: $!";
    local $/ = undef;
    return JSON::PP->new->utf8->decode( scalar <$file> );
}

sub shown { return JSON::PP->new->canonical->allow_nonref->encode( $_[0] ) }

sub plain {
    my ($value) = @_;
    return ref $value eq 'ARRAY' ? shown($value) : $value ? "$value" : '0';
}

sub started {
    my ( $playing, $locks, $name, $of, $fails ) = @_;
    my $candidate = $playing->{candidates}{$name} = { called => [] };
    my $callback  = sub {
        my ($kind) = @_;
        return sub {
            push @{ $candidate->{called} }, [ $kind, @_ ];
            die "the test wants it\n" if $fails->{"on_$kind"};
        };
    };
    $candidate->{leader} = $locks->leader( $of, on_elected => $callback->('elected'), on_lost => $callback->('lost') )->start;
    return;
}

# The tokens with which it was elected. Each was told of its end, the last one perhaps not.
sub tokens {
    my ($candidate) = @_;
    my @called      = @{ $candidate->{called} };
    my @elected     = map { $_->[1] } grep { $_->[0] eq 'elected' } @called;
    my @lost        = map { $_->[1] } grep { $_->[0] eq 'lost' } @called;
    my @expected    = map { ( [ elected => $elected[$_] ], $_ < @lost ? [ lost => $elected[$_] ] : () ) } 0 .. $#elected;
    die 'wrong calls: ' . shown( \@called ) if shown( \@called ) ne shown( \@expected );
    return @elected;
}

sub used {
    my ( $playing, $way, $by, $locks, $method, @arguments ) = @_;
    return started( $playing, $locks, @arguments )                                         if $method eq 'start';
    return $locks->close                                                                   if $method eq 'close';
    return $way->got( scalar $locks->waiting( \@arguments ) )                              if $method eq 'waiting';
    return $way->got( scalar $locks->force_release( $arguments[0] ) )                      if $method eq 'force_release';
    return ( grep { index( $_, $arguments[0] ) >= 0 } @{ $playing->{told}{$by} } ) ? 1 : 0 if $method eq 'told';
    return defined $way->got( scalar $locks->leader(@arguments)->current )                 if $method eq 'has_leader';
    my $candidate = $playing->{candidates}{ shift @arguments };
    my $leader    = $candidate->{leader};
    my @kinds     = map { $_->[0] } @{ $candidate->{called} };

    if ( $method eq 'leads' ) {
        my $status = $way->got( scalar $locks->leader(@arguments)->current );
        return $status && $status->{token} == ( $leader->token // 0 );
    }
    return \@kinds if $method eq 'called';
    if ( $method eq 'called_at_first' ) {
        my @first = grep { defined } @kinds[ 0 .. $#{ $arguments[0] } ];
        return shown( \@first ) eq shown( $arguments[0] );
    }
    my @tokens = tokens($candidate);
    return $tokens[-1] > ( tokens( $playing->{candidates}{ $arguments[0] } ) )[-1] if $method eq 'is_later';
    return $tokens[-1] > $tokens[-2]                                               if $method eq 'is_later_than_before';
    return $way->got( scalar $leader->stop )                                       if $method eq 'stop';
    return $leader->$method;
}

sub killed {
    my ($server) = @_;
    $server->signal('KILL');
    waitpid $server->{pid}, 0;
    unlink $server->{address};
    return;
}

sub played {
    my ( $way, $server, $file, $number ) = @_;
    my $scenario = $file->{scenarios}[$number];
    my %settings = ( namespace => "leaders$number", %{ $file->{client} }, %{ $scenario->{client} || {} } );
    my $playing  = { candidates => {}, told => {}, clients => {} };
    for my $step ( @{ $scenario->{steps} } ) {
        if ( my $what = $step->{server} ) {
            $what eq 'stop' ? killed($server) : $server->start;
            next;
        }
        my $by    = $step->{by};
        my $locks = $playing->{clients}{$by} ||= $way->locks( "unix://$server->{address}", %settings,
            on_event => sub { push @{ $playing->{told}{$by} }, $_[0]{message} } );
        my $ends = time + PATIENCE;
        while (1) {
            my $found = used( $playing, $way, $by, $locks, @{ $step->{call} } );
            last if !exists $step->{returns} || plain($found) eq plain( $step->{returns} );
            die shown($step) . ' returned ' . plain($found) . "\n" if !$step->{eventually} || time > $ends;
            $way->pause(0.002);
        }
    }
    for my $candidate ( values %{ $playing->{candidates} } ) {
        $way->got( scalar $candidate->{leader}->stop );
        die 'it does not end: ' . shown( $candidate->{called} ) if 2 * tokens($candidate) != @{ $candidate->{called} };
    }
    $_->close for values %{ $playing->{clients} };
    return;
}

SKIP: {
    skip 'the scenarios are in the checkout', 1 if !root();
    my $file = scenarios();
    for my $name ( sort keys %models ) {
        my $way = $models{$name};
        if ( my $missing = $way->missing ) {
            diag "$name is left out: $missing does not load";
            next;
        }
        my $said = in_child {
            my $server = server( qw(redis-server --port 0 --unixsocket SOCKET --save), q{}, '--dir', 'FOLDER' );
            my @wrong;
            my $warned = sub { push @wrong, "it warns: @_" };
            local $SIG{__WARN__} = $warned;
            no warnings 'once';                        ## no critic (ProhibitNoWarnings)
            local $Coro::State::WARNHOOK = $warned;    # that of other coroutines
            for my $number ( 0 .. $#{ $file->{scenarios} } ) {
                next if eval { played( $way, $server, $file, $number ); 1 };
                push @wrong, "$file->{scenarios}[$number]{name}: $@";
                last;
            }
            $server->stop;
            "wrong: @wrong";
        };
        is $said, 'wrong: ', "the scenarios in $name";
    }
}

done_testing;
