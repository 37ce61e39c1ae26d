use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use IPC::Open2 qw(open2);
use List::Util qw(sum);
use Test::More;
use Time::HiRes qw(sleep);

use Pinyon;
use Servers qw(cache eventually have_server in_child locks memcached redis root GENEROUS);

# Programs in Perl and in Python that share servers: python/tests/beside_others.py says what the other does.
my $python = ( root() // q{} ) . '/.venv/bin/python';
plan skip_all => 'the checkout has no Python' if !root() || !-x $python;
plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server);

my $url       = 'unix://' . redis()->{address};
my $namespace = "t$$";
my $program   = root() . '/python/tests/beside_others.py';
my $child     = open2( my $said, my $asks, $python, $program, memcached()->{address}, $url, $namespace );
END { kill 'KILL', $child if $child && $said }

sub ask    { say {$asks} "@_";   return $asks->flush }
sub answer { my $line = <$said>; chomp $line; return $line }
sub never  { die "another makes it\n" }

sub asked {
    return sum( map { $_->{cmd_get} } values %{ $_[0]->stats } );
}
sub patient { return ( ttl => 60, wait => GENEROUS, lease => GENEROUS ) }

# No waiter polls: without a wake-up, it stays asleep.
my %asleep = ( namespace => $namespace, ttl => 600, heartbeat => 600 );
my $cache  = cache();
my $locks  = locks(%asleep);

subtest 'a page' => sub {
    my %page = (
        text   => "gr\x{f6}\x{df}er \x{2713}",
        bytes  => "\x00\xff",
        number => -5,
        large  => 1 << 60,
        float  => 2.5,
        yes    => Pinyon::Values::boolean(1),
        no     => Pinyon::Values::boolean(0),
        none   => undef,
        list   => [ 1, 'two', [ 3.5, {} ] ],
        map    => { empty => [], text => q{} },
    );
    utf8::upgrade($_) for @page{qw(text)}, $page{list}[1], $page{map}{text};
    ask( store => 'page' );
    is answer(), 'True';
    my $read = $cache->get('page');
    is_deeply $read, \%page, 'of Python is read in Perl';
    ok utf8::is_utf8( $read->{text} ) && !utf8::is_utf8( $read->{bytes} ), 'text and bytes';
    for my $stored ( $read, \%page ) {
        $cache->set( page => $stored );
        ask( read => 'page' );
        is answer(), 'True', 'of Perl is read in Python';
    }
};

subtest 'one invalidates what both have stored' => sub {
    my $fresh = cache( generation_ttl => 0 );
    ask( tag => 'tagged:python', 'both' );
    is answer(), 'stored';
    $fresh->set( 'tagged:perl' => 2, 60, tags => ['both'] );
    is_deeply $fresh->get_multi(qw(tagged:python tagged:perl)), { 'tagged:python' => 1, 'tagged:perl' => 2 };
    $fresh->invalidate_tags('both');
    ask( invalidate => 'another-tag', qw(tagged:python tagged:perl) );
    is answer(), 'None None', 'Perl';
    is_deeply $fresh->get_multi(qw(tagged:python tagged:perl)), {};
    $fresh->get_or_set( 'tagged:perl' => sub { 3 }, ttl => 60, tags => ['both'] );
    ask( invalidate => 'both', 'tagged:perl' );
    is answer(), '3';
    is $fresh->get('tagged:perl'), undef, 'Python';
};

subtest 'what Python makes Perl waits for' => sub {
    ask( fetch => 'python:makes' );
    is answer(), 'making';
    pipe my $reader, my $writer;
    my $waiting = fork // die "fork: $!";
    if ( !$waiting ) {
        syswrite $writer, $cache->get_or_set( 'python:makes' => \&never, patient() )->[0];
        POSIX::_exit(0);
    }
    close $writer;
    my $before = asked($cache);
    ok eventually { asked($cache) > $before + 3 }, 'asks again and again';
    ask();
    is answer(),         'made in Python';
    is scalar <$reader>, 'made in Python';
    waitpid $waiting, 0;
};

subtest 'what Perl makes Python waits for' => sub {
    my $made = $cache->get_or_set(
        'perl:makes' => sub {
            my $before = asked($cache);
            ask( fetch => 'perl:makes' );
            ok eventually { asked($cache) > $before + 3 }, 'asks again and again';
            return ['made in Perl'];
        },
        patient()
    );
    is_deeply $made, ['made in Perl'];
    is answer(), 'made in Perl';
};

# Races `$get` against Python. Returns who has made the value, of fifty.
sub races {
    my ( $name, $get ) = @_;
    my ( %makers, @wrong );
    for my $round ( 1 .. 50 ) {
        my ( $key, $made ) = ( "$name:$round", 0 );
        ask( race => $key );
        sleep rand 0.0004;
        my $found = $get->( $key, sub { $made++; sleep 0.003; ['made in Perl'] } );
        my ( $is_made, $text ) = split q{ }, answer(), 2;
        my $makers = $made + ( $is_made eq 'made' );
        push @wrong, "$key: $makers have made it, of Perl $made" if $makers != 1;
        push @wrong, "$key: $found->[0] and $text"               if $found->[0] ne $text;
        push @wrong, "$key: $text"                               if $text ne ( $made ? 'made in Perl' : 'made in Python' );
        $makers{$text}++;
    }
    is_deeply \@wrong, [], 'one of both alone makes it: ' . join q{, }, map { "$makers{$_} are $_" } sort keys %makers;
    return;
}

subtest 'races' => sub {
    races( waits => sub { my ( $key, $make ) = @_; return $cache->get_or_set( $key => $make, patient() ) } );
};

# Lets Python's threads and callers of Perl's queue in turn while the lock is held, and then lets it go. `$begin` begins a caller
# of Perl's, and returns a sub that says its token; `$pause` lets it run.
sub is_fair {
    my ( $name, $begin, $pause ) = @_;
    my $held = $locks->lock($name);
    my ( @queue, %token, %told );
    for my $number ( 1 .. 8 ) {
        my $caller = $number % 2 ? "python$number" : "perl$number";
        push @queue, $caller;
        if ( $number % 2 ) { ask( queue => $name, $caller ) }
        else               { $told{$caller} = $begin->() }
        next if eventually { $pause->(); $locks->waiting($name) == $number };
        die "$caller does not wait";
    }
    my $first = $held->token;
    $held->release;
    $token{$_} = $told{$_}->() for sort keys %told;
    for ( 1 .. 4 ) {
        my ( $caller, $token ) = split q{ }, answer();
        $token{$caller} = $token;
    }
    is_deeply [ sort { $token{$a} <=> $token{$b} } keys %token ], \@queue, 'first come, first served, in both languages';
    cmp_ok $token{ $queue[0] }, '>', $first, 'tokens rise';
    is scalar( keys %{ { reverse %token } } ), 8, 'each has its own';
    return;
}

subtest 'a queue' => sub {
    my $begin = sub {
        pipe my $reader, my $writer;
        my $waiting = fork // die "fork: $!";
        if ( !$waiting ) {
            syswrite $writer, locks(%asleep)->lock('queue')->token;
            POSIX::_exit(0);
        }
        close $writer;
        return sub { my $token = <$reader>; waitpid $waiting, 0; return $token };
    };
    is_fair( 'queue', $begin, sub { } );
};

subtest 'a release in Python wakes Perl' => sub {
    ask( hold => 'woken' );
    is answer(), 'holding';
    is $locks->try_lock('woken'), undef, 'Perl sees that it is held';
    my $releases = fork // die "fork: $!";
    if ( !$releases ) {
        my $own = locks(%asleep);
        eventually { $own->waiting('woken') };
        ask();
        POSIX::_exit(0);
    }
    is $locks->lock('woken')->release, 1;
    waitpid $releases, 0;
};

subtest 'a lock is handed over in both directions' => sub {
    my $held = $locks->lock('handed');
    ask( adopt => $held->hand_over );
    cmp_ok answer(), '>', $held->token, 'tokens rise';
    ok $locks->is_locked('handed');
    ask();
    ok eventually { !$locks->is_locked('handed') };
    ask( hand => 'handed' );
    my $adopted = $locks->adopt( answer() );
    is_deeply [ $adopted->names ], ['handed'];
    ok $adopted->check->release;
};

SKIP: {
    my ($missing) = grep { !eval "require $_" } qw(EV Coro Coro::AnyEvent);
    skip "$missing does not load", 1 if $missing;
    require Pinyon::Coro;
    my @generous = ( timeout => GENEROUS, connect_timeout => GENEROUS );
    my $caching  = Pinyon::Coro::Cache->new( servers => [ memcached()->{address} ], @generous );

    subtest 'coroutines wait for Python' => sub {
        ask( fetch => 'coroutines' );
        is answer(), 'making';
        my @waiting = map {
            Coro::async( sub { $caching->get_or_set( coroutines => \&never, patient() )->[0] } )
        } 1 .. 10;
        my $before = asked($cache);
        ok eventually { Coro::AnyEvent::sleep(0.005); asked($cache) > $before + 3 }, 'ask again and again';
        ask();
        is answer(), 'made in Python';
        is scalar( grep { $_->join eq 'made in Python' } @waiting ), 10, 'all get it';
        races( coroutines => sub { my ( $key, $make ) = @_; return $caching->get_or_set( $key => $make, patient() ) } );
    };

    subtest 'coroutines in a queue' => sub {
        my $acquire = sub {
            my ($locking) = @_;
            my $held      = $locking->lock('coroutines');
            my $token     = $held->token;
            $held->release;
            return $token;
        };
        my $begin = sub {
            my $waiting =
                Coro::async( $acquire, Pinyon::Coro::Locks->new( $url, %asleep, @generous, command_timeout => GENEROUS ) );
            return sub { return $waiting->join };
        };
        is_fair( 'coroutines', $begin, sub { Coro::AnyEvent::sleep(0.005) } );
    };
}

close $asks;
waitpid $child, 0;
is $?, 0, 'Python ends';
undef $said;

done_testing;
