use 5.016;
use strict;
use warnings;
use utf8;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache have_server root vectors);
use Typed   qw(from_typed);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output todo_output);

# Another client of the same server, which has bytes and flags for values.
my $bytes = cache( serializer => Typed::Bytes->new );

sub stored {
    my ($key) = @_;
    my ( $data, $flags ) = @{ $bytes->get($key) };
    return "$flags " . unpack 'H*', $data;
}

subtest 'scalars are stored as what they are' => sub {
    my $cache = cache();
    my $float = 0.5;
    for (
        [ bytes   => "\xff\x00", '0 ff00' ],
        [ ascii   => 'Ada',      '0 416461' ],
        [ text    => 'größer',   '16 6772c3b6c39f6572' ],
        [ integer => 42,         '2 3432' ],
        [ digits  => '42',       '0 3432' ],
        [ float   => $float,     '256 cb3fe0000000000000' ],
        [ nothing => undef,      '256 c0' ],
        [ true    => \1,         '256 c3' ],
        )
    {
        my ( $key, $value, $expected ) = @{$_};
        $cache->set( $key => $value );
        is stored($key), $expected, $key;
        is_deeply [ $cache->get($key) ], [ ref $value ? Pinyon::Values::boolean(1) : $value ], "$key is read again";
    }
};

subtest 'whole numbers that Perl holds as floats are integers' => sub {
    my $cache = cache();
    for my $number ( 10 / 2, 2**10, 1e3, sqrt 16, 1e15, 0.5 * 4, '5.0' + 0, -8 / 2 ) {
        $cache->set( whole => $number );
        is stored('whole'), '2 ' . unpack( 'H*', sprintf '%.0f', $number ), "$number is stored";
        is $cache->incr('whole'), $number + 1 if $number >= 0;
        $cache->set( inside => [$number] );
        is_deeply $cache->get('inside'), [$number];
    }
    for my $number ( 2.5, 1e300, -0.25 ) {
        $cache->set( real => $number );
        like stored('real'), qr/^256 cb/, "$number is stored";
    }
};

subtest 'a key with the UTF-8 mark is its UTF-8' => sub {
    my $cache = cache();
    $cache->set( 'größe' => 1 );
    is $cache->get("gr\xc3\xb6\xc3\x9fe"), 1;
    is_deeply $cache->get_multi('größe'), { 'größe' => 1 }, 'results have the keys of the caller';
};

subtest 'what has no counterpart is refused' => sub {
    my $cache = cache();
    my $cycle = [];
    push @{$cycle}, $cycle;
    for (
        [ sub { 1 },                  qr/a reference to CODE cannot be stored/ ],
        [ bless( {}, 'Some::Class' ), qr/an object of the class Some::Class cannot be stored.*serializer => 'storable'/ ],
        [ { deep => [ \*STDOUT ] },   qr/a reference to GLOB cannot be stored/ ],
        [ $cycle,                     qr/nested more than 200 levels/ ],
        )
    {
        my ( $value, $says ) = @{$_};
        ok !eval { $cache->set( refused => $value ); 1 };
        isa_ok $@, 'Pinyon::Error::UnsupportedType';
        like $@, $says;
    }
    @{$cycle} = ();
    ok !eval {
        $cache->set( refused => [ [ sub { 1 } ] ] );
        1;
    }, 'in the middle of a value';
    is $cache->set( after => [1] ), 1, 'and the next value is stored';
};

subtest 'serializers' => sub {
    my $storable = cache( serializer => 'storable' );
    my $object   = bless { name => 'Ada', list => [ 1, 2 ] }, 'Some::Class';
    $storable->set( object => $object );
    is_deeply $storable->get('object'), $object, 'storable';
    like stored('object'), qr/^2048 /, 'has a flag of its own';
    ok !eval { cache()->get('object'); 1 }, 'which others do not read';
    isa_ok $@, 'Pinyon::Error::UnknownFlags';
    ok !eval {
        $storable->set( code => [ sub { 1 } ] );
        1;
    };
    isa_ok $@, 'Pinyon::Error::Unpicklable';

    my $json = cache( serializer => 'json' );
    $json->set( json => [ 1, 'größer' ] );
    is stored('json'), '512 ' . unpack 'H*', "[1,\"gr\xc3\xb6\xc3\x9fer\"]";
    is_deeply $json->get('json'), [ 1, 'größer' ], 'json';

    my $raw = cache( serializer => 'raw' );
    $raw->set( raw => 'größer' );
    is $raw->get('raw'), "gr\xc3\xb6\xc3\x9fer", 'raw returns bytes';
    ok !eval { $raw->set( raw => [] ); 1 };
    isa_ok $@, 'Pinyon::Error::UnsupportedType';

    ok !eval { cache( serializer => 'pickle' ); 1 };
    like $@, qr/serializer is 'portable', 'json'/;
    ok !eval { cache( serializer => bless [], 'Nothing' ); 1 };
    like $@, qr/Nothing has no dump/;
};

subtest 'compression' => sub {
    my $cache = cache( compression => { threshold => 100 } );
    $cache->set( long => 'a value like any other, ' x 1000 );
    cmp_ok $cache->meta('long')->{size}, '<', 1000;
    is $cache->get('long'), 'a value like any other, ' x 1000;
    is cache()->get('long'), 'a value like any other, ' x 1000, 'every client reads it';
};

SKIP: {
    skip 'the vectors are in the checkout', 1 if !root();

    my $vectors = vectors('portable');

    # What Perl writes differently: its maps have no order and only texts as keys, ASCII bytes inside are text, and
    # whole numbers are integers.
    my %otherwise = map { $_ => 1 } qw(
        bytes-inside maps-by-length map map-of-integers map-of-other-keys map-of-instants empty-text
        integer-of-over-64-bits-inside not-a-number special-floats whole-float negative-zero floats
    );
    for my $form (qw(portable json)) {
        subtest "what every language stores as $form" => sub {
            my $cache = cache( serializer => $form );
            for my $vector ( @{ $vectors->{values} } ) {
                my $expected = $vector->{$form};
                my $name     = $vector->{name};
                my $value    = from_typed( $vector->{value} );
                if ( !$otherwise{$name} && $expected ) {
                    $cache->set( $name => $value );
                    is stored($name), "$expected->{flags} $expected->{data_hex}", "$name is written";
                }
                elsif ( !$otherwise{$name} ) {
                    ok !eval { $cache->set( $name => $value ); 1 }, "$name is refused";
                }
                next if !$expected;
                $bytes->set( $name => [ pack( 'H*', $expected->{data_hex} ), $expected->{flags} ] );
                is_deeply $cache->get($name), $value, "$name is read";
            }
        };
    }

    subtest 'what is read all the same, and what is not' => sub {
        my $cache = cache();
        for my $vector ( @{ $vectors->{read} } ) {
            $bytes->set( read => [ pack( 'H*', $vector->{data_hex} ), $vector->{flags} ] );
            is_deeply $cache->get('read'), from_typed( $vector->{value} ), $vector->{name};
        }
        for my $vector ( @{ $vectors->{malformed} } ) {
            $bytes->set( read => [ pack( 'H*', $vector->{data_hex} ), $vector->{flags} ] );
            ok !eval { $cache->get('read'); 1 }, $vector->{name};
            isa_ok $@, 'Pinyon::Error::UndecodableValue';
        }
    };

    subtest 'a serializer beside a dialect' => sub {
        for my $serializer ( qw(json raw storable), Typed::Bytes->new ) {
            ok !eval { cache( dialect => 'pylibmc', serializer => $serializer ); 1 };
            isa_ok $@, 'Pinyon::Error::Usage';
            like $@, qr/the dialect "pylibmc" says how values are stored/;
        }
        ok cache( dialect => 'pylibmc',         serializer => 'portable' ), 'what there is anyway';
        ok cache( dialect => 'pinyon',          serializer => 'json' );
        ok cache( dialect => 'cache-memcached', serializer => 'storable' ), "Perl's own";
    };

    my $dialects = vectors('values');
    for my $dialect ( sort keys %{$dialects} ) {
        subtest "the dialect of $dialect" => sub {
            my $cache = cache( dialect => $dialect );
            for my $vector ( @{ $dialects->{$dialect}{values} } ) {
                my $hex = $vector->{data_hex};
                $hex = $hex->{repeated} x $hex->{times} if ref $hex;
                $bytes->set( other => [ pack( "H*", $hex ), $vector->{flags} ] );
                is_deeply $cache->get('other'), from_typed( $vector->{value} ), "$vector->{name} by $vector->{writer}";
            }
        };
    }
}

done_testing;
