use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache have_server memcached server GENEROUS);
use Ways;

plan skip_all => 'memcached is not installed' if !have_server('memcached');

# Promises of Mojolicious, for the calls of this test alone.
{

    package Ways::Mojo;

    our @ISA = ('Ways::Coro');    ## no critic (ProhibitExplicitISA)

    # EV belongs to Coro here, whose loop does not wait for a promise.
    BEGIN { $ENV{MOJO_REACTOR} = 'Mojo::Reactor::Poll' }    ## no critic (RequireLocalizedPunctuationVars)

    sub modules { return qw(Mojo::IOLoop Pinyon::Mojo) }

    sub cache {
        my ( $self, @settings ) = @_;
        return Pinyon::Mojo::Cache->new(@settings);
    }

    sub got {
        my ( $self, $promise ) = @_;
        my ( $value, $error );
        $promise->then( sub { $value = $_[0] }, sub { $error = $_[0] } )->wait;
        die $error if defined $error;
        return $value;
    }
}

my @generous = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my $other    = server( qw(memcached -u), scalar getpwuid($>), qw(-s SOCKET -t 2) );

# Each stores the key 'value' with the tags; what it returns.
my %stores = (
    set        => [ sub { $_[0]->set( value => 7, tags => $_[1] ) },                              1 ],
    set_for    => [ sub { $_[0]->set( value => 7, 60, tags => $_[1] ) },                          1 ],
    add        => [ sub { $_[0]->add( value => 7, 60, tags => $_[1] ) },                          1 ],
    set_multi  => [ sub { $_[0]->set_multi( [ value => 7, 60 ], [ more => 8 ], tags => $_[1] ) }, { value => 1, more => 1 } ],
    set_each   => [ sub { $_[0]->set_multi( [ value => 7, 60, tags => $_[1] ] ) },                { value => 1 } ],
    set_own    => [ sub { $_[0]->set_multi( [ value => 7, 60, tags => $_[1] ], tags => ['none-of-it'] ) }, { value => 1 } ],
    add_multi  => [ sub { $_[0]->add_multi( [ value => 7 ], tags => $_[1] ) },                             { value => 1 } ],
    get_or_set => [
        sub {
            $_[0]->get_or_set( value => sub { 7 }, ttl => 60, tags => $_[1] );
        },
        7
    ],
    get_or_set_multi => [
        sub {
            $_[0]->get_or_set_multi( ['value'], sub { { value => 7 } }, ttl => 60, tags => $_[1] );
        },
        { value => 7 }
    ],
    cached => [
        sub {
            $_[0]->cached( sub { 7 }, key => 'value', ttl => 60, tags => $_[1] )->();
        },
        7
    ],
    refresh => [
        sub {
            $_[0]->cached( sub { 7 }, key => 'value', ttl => 60, tags => $_[1] )->refresh;
        },
        7
    ],
);

# Calls a method, and waits for what it returns.
sub calling {
    my ( $way, $cache ) = @_;
    return sub {
        my ( $method, @arguments ) = @_;
        return $way->got( scalar $cache->$method(@arguments) );
    };
}

sub check_stores {
    my ( $way, $cache ) = @_;
    my $call = calling( $way, $cache );
    for my $name ( sort keys %stores ) {
        my ( $store, $returned ) = @{ $stores{$name} };
        for my $tags ( 'user:7', [ 'page', 'user:7' ] ) {
            $call->( delete => $_ ) for qw(value more);
            is_deeply $way->got( scalar $store->( $cache, $tags ) ), $returned, "$name stores";
            is $call->( get => 'value' ), 7, 'and it is read';
            is $call->( invalidate_tags => 'other', 'user:7' ), 1;
            is_deeply [ $call->( get => 'value' ), $call->( get_multi => 'value', 'more' ) ], [ undef, {} ],
                'until its tag is invalidated';
        }
    }
    $call->( set => value => 1 );
    is $call->( replace => value => 2, 60, tags => ['user:7'] ), 1;
    my ( undef, $token ) = @{ $call->( gets => 'value' ) };
    is $call->( cas => value => 3, $token, 60, tags => ['user:7'] ), 1;
    is $call->( cas => value => 4, $token, tags => ['user:7'] ),     q{};
    is $call->( get => 'value' ),                                    3;
    $call->( invalidate_tags => 'user:7' );
    is $call->( get => 'value' ), undef, 'replace and cas';
    return;
}

# Values that are made while their tag is invalidated do not count.
sub check_makers {
    my ( $way, $cache, @others ) = @_;
    my $call       = calling( $way, $cache );
    my $others     = Pinyon::Cache->new(@others);
    my $invalidate = sub { $others->invalidate_tags('user:8'); return 7 };
    my %makers     = (
        get_or_set       => sub { $_[0]->get_or_set( made => $invalidate, ttl => 60, tags => ['user:8'] ) },
        get_or_set_multi => sub {
            $_[0]->get_or_set_multi( ['made'], sub { { made => $invalidate->() } }, ttl => 60, tags => ['user:8'] );
        },
        refresh => sub { $_[0]->cached( $invalidate, key => 'made', ttl => 60, tags => 'user:8' )->refresh },
    );
    for my $name ( sort keys %makers ) {
        $call->( delete => 'made' );
        $way->got( scalar $makers{$name}->($cache) );
        is $call->( get => 'made' ), undef, "$name notices an invalidation meanwhile";
    }
    $call->( set => kept => 'old', 30, tags => ['user:8'] );
    my @stale = ( ttl => 60, stale => 60, on_error => 'stale', tags => ['user:8'] );
    is $call->( get_or_set => kept => sub { die "not today\n" }, @stale ), 'old', 'a maker that fails leaves the old value';
    is $call->( get => 'kept' ), 'old';
    $invalidate->();
    is $call->( get => 'kept' ), undef, 'with its tags';
    return;
}

sub check {
    my ($way)     = @_;
    my $namespace = ref($way) . q{:};
    my @pools = map { [ servers => [ $_->{address} ], generation_ttl => 0, namespace => $namespace, @generous ] } memcached(),
        $other;
    my ( $cache, $new ) = map { $way->cache( @{$_} ) } @pools;
    my $migrating = ( ref($cache) =~ s/Cache\z/MigratingCache/r )->new( $cache, $new );
    check_stores( $way, $cache );
    check_makers( $way, $cache, @{ $pools[0] } );
    check_stores( $way, $migrating );
    check_makers( $way, $migrating, @{ $pools[1] } );
    return;
}

for my $way ( map { "Ways::$_"->new } qw(Blocking Coro AnyEvent Future Mojo) ) {
    subtest ref($way) => sub {
        my $missing = $way->missing;
        plan skip_all => "$missing does not load" if $missing;
        check($way);
    };
}

subtest 'tags of many values are read once' => sub {
    my $cache = cache( generation_ttl => 0 );
    my $gets  = sub { return ( values %{ $cache->stats } )[0]{cmd_get} };
    for my $asked ( 1, 1 ) {
        my $before = $gets->();
        $cache->set_multi( ( map { [ "many:$_" => $_, 60 ] } 1 .. 10 ), tags => ['user:9'] );
        is $gets->() - $before, $asked;
    }
};

subtest 'what makes no sense is refused' => sub {
    my $cache = cache();
    my @wrong = (
        [ sub { $cache->set( a => 1, 60, 5 ) },             'Usage',           qr/set takes a key, a value and perhaps a ttl/ ],
        [ sub { $cache->set( a => 1, 60, tag => 'x' ) },    'Usage',           qr/and perhaps tags => names/ ],
        [ sub { $cache->set( a => 1, 60, 'tags' ) },        'Usage',           qr/set takes a key, a value and perhaps a ttl/ ],
        [ sub { $cache->cas( a => 1, 1, 60, tag => 'x' ) }, 'Usage',           qr/cas takes a key, a value, a CAS token/ ],
        [ sub { $cache->set( a => 1, 60, tags => {} ) },    'UnsupportedType', qr/a tag is a string, not a reference/ ],
        [ sub { $cache->set( a => 1, 60, tags => [undef] ) },     'UnsupportedType', qr/a tag is a string, not undef/ ],
        [ sub { $cache->set( a => 1, 60, tags => [q{}] ) },       'Usage',           qr/a tag must have at least one byte/ ],
        [ sub { $cache->set( a => 1, 60, tags => [ 1 .. 65 ] ) }, 'Usage',           qr/64 tags at most/ ],
        [ sub { $cache->invalidate_tags( {} ) },                  'UnsupportedType', qr/a tag is a string/ ],
        [ sub { $cache->append( a => 1, tags => ['x'] ) },        'Usage',           qr/append takes a key and a value/ ],
        [
            sub {
                $cache->quiet( sub { $_[0]->set( a => 1, 60, tags => ['x'] ) } );
            },
            'Usage',
            qr/batches do not store values with tags/
        ],
        [ sub { cache( dialect => 'cache-memcached' )->set( a => 1, 60, tags => ['x'] ) }, 'Usage', qr/tags need the dialect/ ],
    );
    for (@wrong) {
        my ( $call, $kind, $message ) = @{$_};
        ok !eval { $call->(); 1 };
        isa_ok $@, "Pinyon::Error::$kind";
        like $@, $message;
    }
    is $cache->set( a => 1, 60, tags => $_ ), 1, 'no tags' for undef, [];
};

done_testing;
