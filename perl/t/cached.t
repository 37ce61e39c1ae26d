use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Scalar::Util qw(reftype weaken);
use Servers      qw(cache have_server memcached GENEROUS);
use Ways         ();

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my @generous = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my $number   = 0;

sub settings { return ( servers => [ memcached()->{address} ], namespace => "cached:$$:" . $number++ . q{:}, @generous ) }

# A sub that counts its calls.
sub counting {
    my ($calls) = @_;
    return sub { return [ @_, ++${$calls} ] };
}

for my $name (qw(Blocking Coro AnyEvent Future)) {
    my $way = "Ways::$name"->new;
    if ( my $missing = $way->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    my $run = sub {
        my ($call) = @_;
        return $way->wait_for( sub { $way->got( $call->() ) } );
    };

    subtest "$name: results by their arguments" => sub {
        my ( $cache, $calls ) = ( $way->cache( settings() ), 0 );
        my $product = $cache->cached( counting( \$calls ), key => 'product:{0}:{1}', ttl => 60, stale => 30 );
        is reftype $product,                             'CODE',          'a reference to a sub';
        is $product->key( 7, 'EUR' ),                    'product:7:EUR', 'the key';
        is $run->( sub { $product->peek( 7, 'EUR' ) } ), undef,           'nothing is there';
        ok !$run->( sub { $product->invalidate( 7, 'EUR' ) } ), 'nothing to delete';
        is_deeply $run->( sub { $product->( 7, 'EUR' ) } ), [ 7, 'EUR', 1 ], 'made' for 1 .. 2;
        is_deeply $run->( sub { $product->( 7, 'USD' ) } ), [ 7, 'USD', 2 ], 'another';
        is_deeply $run->( sub { $product->peek( 7, 'EUR' ) } ), [ 7, 'EUR', 1 ], 'looked at';
        cmp_ok $run->( sub { $cache->meta('product:7:EUR') } )->{ttl}, '>', 80, 'fresh for ttl, and then stale';
        ok $run->( sub { $product->invalidate( 7, 'EUR' ) } ), 'deleted';
        is $run->( sub { $product->peek( 7, 'EUR' ) } ), undef, 'it is gone';
        is_deeply $run->( sub { $product->( 7, 'EUR' ) } ), [ 7, 'EUR', 3 ], 'made again';
    };

    subtest "$name: refreshed" => sub {
        my ( $cache, $calls, $fails ) = ( $way->cache( settings() ), 0, 0 );
        my $counting = counting( \$calls );
        my $product  = $cache->cached(
            sub { $fails ? die "no database\n" : $counting->(@_) },
            key      => '{0}',
            ttl      => 60,
            stale    => 30,
            on_error => 'stale'
        );
        is_deeply $run->( sub { $product->refresh(7) } ), [ 7, 1 ], 'there was none';
        is_deeply $run->( sub { $product->refresh(7) } ), [ 7, 2 ], 'in place of the old one';
        is_deeply $run->( sub { $product->(7) } ),        [ 7, 2 ], 'it is stored';
        cmp_ok $run->( sub { $cache->meta(7) } )->{ttl}, '>', 80, 'as get_or_set stores it';
        $fails = 1;
        ok !eval {
            $run->( sub { $product->refresh(7) } );
            1;
        }, 'it fails';
        like $@, qr/\Ano database\n/, 'with the error of the sub';
        is_deeply $run->( sub { $product->(7) } ), [ 7, 2 ], 'the old result stays';

        my $short = $cache->cached( sub { Pinyon::Made->new( 'made', ttl => 5 ) }, key => 'short', ttl => 60 );
        is $run->( sub { $short->refresh } ), 'made', 'with more to say of it';
        cmp_ok $run->( sub { $cache->meta('short') } )->{ttl}, '<=', 5, 'for how long it is kept';

        my ( $made, $during ) = ('of before');
        my $before = $cache->cached( sub { $during->() if $during; $made }, key => 'made', ttl => 60 );
        my $after  = Pinyon::Cache->new( servers => [ memcached()->{address} ], namespace => $cache->namespace, @generous )
            ->cached( sub { 'of after' }, key => 'made', ttl => 60 );
        $during = sub { is $after->refresh, 'of after', 'a refresh while it is made' };
        is $run->( sub { $before->() } ), 'of before', 'a call that began earlier';
        is $after->peek,                  'of after',  'does not overwrite it';
    };

    subtest "$name: undef is a result like any other" => sub {
        my ( $cache, $calls ) = ( $way->cache( settings() ), 0 );
        my $nothing = $cache->cached( sub { $calls++; undef }, key => sub { "nothing:$_[1]" }, ttl => 60 );
        is $run->( sub { $nothing->( 1, 2 ) } ), undef,       'undef' for 1 .. 2;
        is $calls,                               1,           'made once';
        is $nothing->key( 1, 2 ),                'nothing:2', 'a sub makes the key';
    };
}

subtest 'what makes no sense is refused' => sub {
    my $cache = cache();
    for my $case (
        [ qr/takes a reference to a sub and its key/, 5, key => 'a' ],
        [ qr/needs a key/,                     sub { } ],
        [ qr/needs a key/,                     sub { }, key => q{} ],
        [ qr/needs a key/,                     sub { }, key => [] ],
        [ qr/"\{id\}" is no key: an argument/, sub { }, key => '{id}' ],
        [ qr/"a\}" is no key/,                 sub { }, key => 'a}' ],
        [ qr/has no option "stail"/,           sub { }, key => 'a', ttl => 60, stail    => 5 ],
        [ qr/needs stale/,                     sub { }, key => 'a', ttl => 60, on_error => 'stale' ],
        )
    {
        my ( $says, @arguments ) = @{$case};
        ok !eval { $cache->cached(@arguments); 1 }, "$says";
        isa_ok $@, 'Pinyon::Error::Usage';
        like $@,       $says,           'it says so';
        like $@->file, qr/cached\.t\z/, 'where it was called';
    }
    is $cache->cached( sub { }, key => '{{{0}}}', ttl => 60 )->key(5), '{5}', 'braces';
    my $product = $cache->cached( sub { }, key => '{0}{1}', ttl => 60 );
    for my $arguments ( [5], [ 5, undef ] ) {
        ok !eval { $product->( @{$arguments} ); 1 }, 'an argument is missing';
        like $@, qr/no argument 1, which the key \{0\}\{1\} needs/, 'it says which';
    }
};

subtest 'nothing is left of it' => sub {
    my $cache   = cache();
    my $product = $cache->cached( sub { 1 }, key => 'left:{0}', ttl => 60 );
    $product->(7);
    weaken( my $weak = $product );
    undef $product;
    is $weak, undef, 'the object';
    weaken( my $client = $cache );
    undef $cache;
    is $client, undef, 'its client';
};

subtest 'what is refreshed is stored at once, also where callers leave makers behind' => sub {
    my $count  = 0;
    my $cached = cache( namespace => 'behind:' )
        ->cached( sub { ++$count }, key => 'behind:{0}', ttl => 60, stale => 30, refresh => 'behind' );
    is $cached->refresh(7), 1;
    is $cached->peek(7),    1;
};

done_testing;
