use 5.016;
use strict;
use warnings;

use File::Temp ();
use FindBin    qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(eventually have_server in_child memcached redis GENEROUS);

plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server);

my @generous = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my @servers  = ( servers => [ memcached()->{address} ], @generous );
my $url      = 'unix://' . redis()->{address};

subtest 'futures of IO::Async' => sub {
    plan skip_all => 'IO::Async is not installed' if !eval { require IO::Async::Loop; 1 };
    require Pinyon::Future;
    my $loop  = IO::Async::Loop->new;
    my $cache = Pinyon::Future::Cache->new( @servers, loop => $loop );
    is $cache->set( key => 'value' )->then( sub { $cache->get('key') } )->get, 'value', 'a chain';
    isa_ok $cache->get('key'), ref $loop->new_future;
    is_deeply [ Future->needs_all( map { $cache->get('key') } 1 .. 100 )->get ], [ ('value') x 100 ], 'a hundred at once';
    ok !eval { $cache->get('with space')->get; 1 }, 'a failure';
    isa_ok $@, 'Pinyon::Error::InvalidKey';
    is $cache->get_or_set( made => sub { Future->done('made') } )->get, 'made', 'a future makes the value';
    $cache->delete( 'made', stale => 1000 )->get;
    my $late = $loop->new_future;
    my $old  = $cache->get_or_set( made => sub { $late }, ttl => 1000, stale => 1000, soft_timeout => 0.01 )->get;
    is $old, 'made', 'one that is late leaves the caller the old value';
    $late->done('late');
    ok eventually { $cache->get('made')->get eq 'late' }, 'and is stored';

    my $locks   = Pinyon::Future::Locks->new( $url, namespace => "f$$", @generous[ 2, 3 ] );
    my $held    = $locks->lock('name')->get;
    my $waiting = $locks->lock( 'name', timeout => GENEROUS );
    $loop->delay_future( after => 0.1 )->get;
    $waiting->cancel;
    $held->release->get;
    my $next = $locks->lock( 'name', timeout => GENEROUS )->get;
    cmp_ok $next->token, '>', $held->token, 'a cancelled wait is given up';
    is $locks->synchronized( other => sub { $cache->get('key') } )->get, 'value', 'the block returns a future';
    ok !$locks->is_locked('other')->get,                               'and the lock is released after it';
    ok !eval { Pinyon::Future::Cache->new( @servers, loop => 1 ); 1 }, 'a loop that is none is refused';
};

for my $class (qw(IO::Async::Loop::Epoll IO::Async::Loop::Poll)) {
    subtest "a fork while $class runs" => sub {
        plan skip_all => "$class is not installed" if !eval "require $class";
        require Pinyon::Future;
        my $cache = Pinyon::Future::Cache->new( @servers, loop => $class->new );
        $cache->set( forked => 'value' )->get;
        my $child = in_child { return join q{ }, map { $cache->get('forked')->get } 1 .. 2 };
        is $child,                     'value value', 'a child has connections of its own';
        is $cache->get('forked')->get, 'value',       'the parent goes on';
    };
}

for my $reactor (qw(Mojo::Reactor::Poll Mojo::Reactor::EV)) {
    subtest "promises of Mojolicious, $reactor" => sub {
        plan skip_all => "$reactor is not installed" if !eval "require $reactor";
        my $said = in_child {
            $ENV{MOJO_REACTOR} = $reactor;
            require Pinyon::Mojo;
            my $cache = Pinyon::Mojo::Cache->new(@servers);
            my $locks = Pinyon::Mojo::Locks->new( $url, namespace => "m$$", @generous[ 2, 3 ] );
            my @said;
            $cache->set( key => 'value' )->then( sub { $cache->get('key') } )->then( sub { push @said, $_[0] } )->wait;
            $cache->get('with space')->catch( sub { push @said, ref $_[0] } )->wait;
            $locks->synchronized( name => sub { $cache->get('key') } )->then( sub { push @said, "locked $_[0]" } )->wait;
            my $stripe = $locks->permits( 'stripe', limit => 2 );
            $stripe->synchronized( sub { $stripe->available } )->then( sub { push @said, "$_[0] available" } )->wait;
            Mojo::Promise->all( map { $cache->get('key') } 1 .. 50 )->then( sub { push @said, scalar @_ } )->wait;
            my $cached = $cache->cached( sub { Mojo::Promise->resolve("cached $_[0]") }, key => 'cached:{0}', ttl => 60 );
            $cached->refresh(7)->then( sub { $cached->peek(7) } )->then( sub { push @said, $_[0] } )->wait;
            $cache->delete( 'cached:7', stale => 1000 )->wait;
            my $late = Mojo::Promise->new;
            $cache->get_or_set( 'cached:7' => sub { $late }, ttl => 1000, stale => 1000, soft_timeout => 0.01 )
                ->then( sub { push @said, "old $_[0]" } )->wait;
            $late->resolve('late');
            my $new = q{};
            eventually {
                $cache->get('cached:7')->then( sub { $new = $_[0] } )->wait;
                $new eq 'late'
            };
            push @said, $new;
            push @said, in_child {
                my $read;
                $cache->get('key')->then( sub { $read = "forked $_[0]" } )->wait;
                return $read;
            };
            return join q{, }, @said;
        };
        is $said, 'value, Pinyon::Error::InvalidKey, locked value, 1 available, 50, cached 7, old cached 7, late, forked value',
            'values, errors, locks, permits, a fork';
    };
}

# What a program of its own says.
sub said_by {
    my ($code) = @_;
    my $file = File::Temp->new;
    print {$file} $code;
    close $file;
    my $include = join q{ }, map { "-I$_" } grep { !ref } @INC;
    return scalar `$^X $include @{[ $file->filename ]} 2>&1`;
}

subtest 'what is missing is named' => sub {
    for my $pair ( [ AnyEvent => 'AnyEvent' ], [ Coro => 'Coro' ], [ Future => 'IO::Async::Loop' ], [ Mojo => 'Mojo::IOLoop' ] )
    {
        my ( $model, $needed ) = @{$pair};
        my $file = ( $needed =~ s{::}{/}gr ) . '.pm';
        my $said =
            said_by( "BEGIN { unshift \@INC, sub { die qq{Can't locate $file in \\\@INC\\n} if \$_[1] eq '$file'; return } }"
                . "require Pinyon::$model;" );
        like $said, qr/Pinyon::$model needs \Q$needed\E, which is not installed/, "Pinyon::$model";
    }
};

subtest 'another version of Coro is refused' => sub {
    plan skip_all => 'Coro is not installed' if !eval { require Coro; require Coro::AnyEvent; 1 };
    my $said = said_by( 'require Coro; require Coro::AnyEvent; our $table = pack q{l2 x200}, 8, 0;'
            . '*Coro::API = \ (my $pointer = unpack q{J}, pack q{p}, $table); require Pinyon::Coro;' );
    like $said, qr/version 7[.]2 of Coro's C interface, and this Coro has 8[.]0/, 'by name';
};

done_testing;
