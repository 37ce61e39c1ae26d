use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache eventually have_server memcached server silent_server);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

# What the block died of.
sub died_of(&) {    ## no critic (ProhibitSubroutinePrototypes)
    my ($block) = @_;
    return eval { $block->(); 1 } ? undef : $@;
}

subtest 'the tree is that of every language' => sub {
    for my $kind ( Pinyon::_kinds() ) {
        my ( $class, @above ) = @{$kind};
        no strict 'refs';    ## no critic (ProhibitNoStrict)
        is_deeply [ sort @{"${class}::ISA"} ], [ sort @above ], $class;
    }
    ok( Pinyon::Error::LockTimeout->isa('Pinyon::Error::Timeout'), 'a lock that comes too late is a timeout' );
};

subtest 'an error says what, where and whether it was sent' => sub {
    my $dead  = cache( servers => ['127.0.0.1:1'] );
    my $line  = __LINE__ + 1;
    my $error = died_of { $dead->get('key') };
    isa_ok $error, 'Pinyon::Error::Connect';
    isa_ok $error, 'Pinyon::Error';
    is $error->sent,    'no';
    is $error->server,  '127.0.0.1:1';
    is $error->command, 'get';
    is $error->kind,    'ConnectError';
    ok $error->is_outage;
    is $error->file, __FILE__;
    is $error->line, $line;
    like $error, qr/\A127\.0\.0\.1:1: get: cannot connect: .* at \Q@{[__FILE__]}\E line $line\.\n\z/, 'as a text';
    my $inside = died_of {
        $dead->quiet( sub { $_[0]->set( a => 1 ) } )
    };
    is $inside->file, __FILE__, 'the place is outside of Pinyon';
    my $silent = cache( servers => [ silent_server()->{address} ], timeout => 3 );
    $error = died_of { $silent->set( key => 'value' ) };
    isa_ok $error, 'Pinyon::Error::Timeout';
    is $error->sent, 'maybe';
};

subtest 'a mistake dies before anything is sent' => sub {
    my $cache = cache( namespace => 'shop:' );
    for (
        [ sub { $cache->get('two words') },           'InvalidKey',      qr/"two words" has a space at position 3/ ],
        [ sub { $cache->get(q{}) },                   'InvalidKey',      qr/is empty/ ],
        [ sub { $cache->get( 'k' x 300 ) },           'InvalidKey',      qr/250/ ],
        [ sub { $cache->get(undef) },                 'UnsupportedType', qr/a key is a string, not undef/ ],
        [ sub { $cache->get( [] ) },                  'UnsupportedType', qr/a key is a string, not a reference to ARRAY/ ],
        [ sub { $cache->get },                        'Usage',           qr/get takes a key/ ],
        [ sub { $cache->set('key') },                 'Usage',           qr/set takes a key, a value and perhaps a ttl/ ],
        [ sub { $cache->set( k => 1, ttl => 5 ) },    'Usage',           qr/set takes a key, a value and perhaps a ttl/ ],
        [ sub { $cache->set( k => 1, 'soon' ) },      'Usage',           qr/ttl is a number of seconds, not soon/ ],
        [ sub { $cache->incr( k => -1 ) },            'Usage',           qr/incr is a whole number/ ],
        [ sub { $cache->incr( k => 1, start => 1 ) }, 'Usage',           qr/incr has no option "start"/ ],
        [ sub { $cache->cas( k => 1, 'token' ) },     'Usage',           qr/a CAS token is a whole number/ ],
        [ sub { $cache->set_multi( a => 1 ) },        'Usage',           qr/set_multi takes array references/ ],
        [ sub { $cache->get_multi( ['a'], 'b' ) },    'Usage',           qr/get_multi takes keys, or a reference/ ],
        [ sub { $cache->append( k => [] ) },          'UnsupportedType', qr/append takes a string/ ],
        [ sub { $cache->get_or_set('k') },            'Usage',           qr/a reference to a sub/ ],
        [
            sub {
                $cache->get_or_set( k => sub { }, til => 1 );
            },
            'Usage',
            qr/get_or_set has no option "til"/
        ],
        [ sub { Pinyon::Cache->new( time_out => 1 ) },        'Usage', qr/no setting "time_out"; did you mean "timeout"/ ],
        [ sub { Pinyon::Cache->new('localhost') },            'Usage', qr/takes names and values/ ],
        [ sub { Pinyon::Cache->new( servers => 'a:b:c:d' ) }, 'InvalidServers', qr/./ ],
        [
            sub {
                Pinyon::Cache->new( timeout => sub { } );
            },
            'Usage',
            qr/timeout is a text or a number/
        ],
        [ sub { Pinyon::Cache->new( on_event => 1 ) }, 'Usage', qr/on_event is a reference to a sub/ ],
        [ sub { Pinyon::Cache->get('key') },           'Usage', qr/this is not a Pinyon::Cache/ ],
        )
    {
        my ( $code, $kind, $says ) = @{$_};
        my $error = died_of { $code->() };
        isa_ok $error, "Pinyon::Error::$kind";
        like $error, $says;
        is ref $error && $error->file, __FILE__;
    }
};

subtest 'many keys, and a server that is dead' => sub {
    my $cache = cache( servers => [ memcached()->{address}, '127.0.0.1:1' ], failover => 0 );
    my @keys  = map { "key$_" } 1 .. 50;
    my ( %failed, $first );
    for my $key (@keys) {
        $first //= $key if ( $cache->servers_of($key) )[0] ne '127.0.0.1:1';
    }
    $cache->set( $first => 'there' );
    my $error = died_of { $cache->get_multi(@keys) };
    isa_ok $error, 'Pinyon::Error';
    is $error->partial->{$first},                                 'there', 'the error has what did arrive';
    is $cache->get_multi( \@keys, failed => \%failed )->{$first}, 'there', 'or the caller takes what there is';
    is_deeply [ keys %failed ], ['127.0.0.1:1'];
    isa_ok $failed{'127.0.0.1:1'}, 'Pinyon::Error';
    $error = died_of { $cache->version };
    is_deeply [ keys %{ $error->partial } ], [ memcached()->{address} ];
    is $cache->using( on_failure => 'miss' )->get_multi(@keys)->{$first}, 'there', 'or failures are misses';
};

subtest 'events' => sub {
    my ( @events, @warnings );
    my $cache = cache( servers => ['127.0.0.1:1'], on_event => sub { push @events, $_[0]; die "in a callback\n" } );
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    for ( 1 .. 10 ) {
        my $error = died_of { $cache->get('key') };
        isa_ok $error, 'Pinyon::Error', 'the call itself';
        last if @events;
    }
    my ($down) = grep { $_->{kind} eq 'down' } @events;
    is $down->{server}, '127.0.0.1:1';
    is $down->{level},  'warning';
    like $warnings[0], qr/on_event failed: in a callback/;
};

done_testing;
