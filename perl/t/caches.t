use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache have_server memcached);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my $cache = cache( namespace => 'caches:' );

subtest 'a value is stored, read and deleted' => sub {
    is $cache->set( user => 'Ada', 60 ), 1,     'set returns true';
    is $cache->get('user'),              'Ada', 'get';
    is $cache->delete('user'),           1,     'delete returns true where there was something';
    is $cache->delete('user'),           q{},   'and false where there was not';
    is $cache->remove('user'),           q{},   'remove is another name of it';
    is scalar $cache->get('user'),       undef, 'a miss is undef';
    is_deeply [ $cache->get('user') ], [], 'and the empty list';
};

subtest 'values that the same call returned are apart' => sub {
    my %stored = ( short => 'a', empty => q{}, text => "\x{263a}", number => 7, long => 'x' x 5_000, list => [1] );
    $cache->set( $_ => $stored{$_} ) for keys %stored;
    my @order    = ( ( sort keys %stored ) x 2, 'missing' );
    my $expected = [ @stored{@order} ];
    my ( @assigned, @referred, @looped );
    for my $key (@order) {
        my $value = $cache->get($key);
        push @assigned, $value;
        $value = 'changed' if !ref $value;
        push @referred, \scalar $cache->get($key);
        for my $alias ( scalar $cache->get($key) ) {
            push @looped, \$alias;
        }
    }
    is_deeply \@assigned,                                $expected, 'assigned';
    is_deeply [ map { ${$_} } @referred ],               $expected, 'referred to';
    is_deeply [ map { ${$_} } @looped ],                 $expected, 'in a loop';
    is_deeply [ map { scalar $cache->get($_) } @order ], $expected, 'mapped';
    my $returned = sub { return $cache->get( $_[0] ) };
    is_deeply [ map { scalar $returned->($_) } @order ], $expected, 'returned';
    my $changed = sub { $_[0] .= '!'; return $_[0] };
    is_deeply [ map { $changed->( $cache->get($_) ) } qw(short text short) ], [ 'a!', "\x{263a}!", 'a!' ], 'changed';
    my $nested;
    $nested = sub { my ( $key, @others ) = @_; return $cache->get($key) . ( @others ? $nested->(@others) : q{} ) };
    is $nested->(qw(short number short)), 'a7a', 'from within a call';
    is_deeply [ map { $cache->gat( $_, 60 ) } qw(short number) ], [ 'a', 7 ], 'gat';
    my @pairs = map { $cache->gets($_) } qw(short text short);
    is_deeply [ map { $_->[0] } @pairs ], [ 'a', "\x{263a}", 'a' ], 'in pairs that stay';
    is utf8::is_utf8( scalar $cache->get('short') ) ? 1 : 0, 0, 'bytes after text';
};

subtest 'storing on a condition' => sub {
    is $cache->add( once => 1 ),         1,   'add stores what is missing';
    is $cache->add( once => 2 ),         q{}, 'and nothing else';
    is $cache->replace( once => 3 ),     1,   'replace stores what is there';
    is $cache->replace( nothing => 3 ),  q{}, 'and nothing else';
    is $cache->get('once'),              3,   'the last one is there';
    is $cache->set( word => 'b' ),       1;
    is $cache->append( word => 'c' ),    1;
    is $cache->prepend( word => 'a' ),   1;
    is $cache->get('word'),              'abc', 'append and prepend';
    is $cache->append( nothing => 'c' ), q{},   'append to nothing';
};

subtest 'CAS tokens' => sub {
    $cache->set( counted => 'old' );
    my ( $value, $token ) = @{ $cache->gets('counted') };
    is $value, 'old', 'gets returns a pair';
    is $cache->cas( counted => 'new',   $token ), 1,     'stored';
    is $cache->cas( counted => 'newer', $token ), q{},   'changed meanwhile';
    is $cache->cas( missing => 'newer', $token ), undef, 'missing';
    is $cache->get('counted'), 'new';
    is $cache->gets('missing'), undef, 'gets of nothing';
};

subtest 'ttls' => sub {
    $cache->set( fading => 'x', 1000 );
    is $cache->get_with_ttl('fading')->[1], 1000, 'seconds that are left';
    is $cache->touch( fading => 0 ),        1,    'touch';
    is_deeply $cache->get_with_ttl('fading'), [ 'x', undef ], 'without end';
    is $cache->gat( fading => 500 ), 'x', 'gat';
    cmp_ok $cache->get_with_ttl('fading')->[1], '>', 400;
    is $cache->gats( fading => 500.5 )->[0], 'x', 'gats, and a fraction of a second';
    is $cache->touch( missing => 10 ), q{};
    $cache->set( gone => 'x', -1 );
    is $cache->get('gone'), undef, 'a negative ttl';
};

subtest 'counters' => sub {
    is $cache->incr('hits'), undef, 'missing';
    is $cache->incr( 'hits', 5, initial => 10, ttl => 60 ), 10, 'made';
    is $cache->incr( 'hits', 5 ), 15;
    is $cache->incr('hits'), 16;
    is $cache->decr( 'hits', 100 ), 0, 'stops at 0';
    $cache->set( most => 18_446_744_073_709_551_614 );
    is $cache->incr('most'), 18_446_744_073_709_551_615, 'all 64 bits';
};

subtest 'many at once' => sub {
    is_deeply [ $cache->set_multi( [ a => 1 ], [ b => 'two', 60 ], [ c => [3] ] ) ], [ 1, 1, 1 ], 'a list in order';
    is_deeply scalar $cache->add_multi( [ a => 2 ], [ d => 4 ] ), { a => q{}, d => 1 },                     'or a hash by key';
    is_deeply $cache->get_multi(qw(a b c d missing)),             { a => 1, b => 'two', c => [3], d => 4 }, 'hits only';
    is_deeply $cache->get_multi( [qw(a missing)] ),               { a => 1 },                               'an array of keys';
    my @gaps;
    $gaps[2] = 'a';
    ok !eval { $cache->get_multi( \@gaps ); 1 };
    isa_ok $@, 'Pinyon::Error::UnsupportedType', 'a gap in an array';
    is_deeply $cache->get_multi, {}, 'no keys';
    my $found = $cache->gets_multi('a');
    is_deeply scalar $cache->cas_multi( [ a => 'cas', $found->{a}[1] ], [ b => 'cas', 1 ] ), { a => 1, b => q{} }, 'cas';
    is_deeply $cache->gat_multi( 100, qw(a missing) ),                                       { a => 'cas' },       'gat';
    is_deeply scalar $cache->touch_multi( [ a => 100 ], [ missing => 5 ] ), { a => 1, missing => q{} },            'touch';
    is_deeply [ $cache->incr_multi( 'd', [ d => 5 ], 'missing' ) ], [ 5, 10, undef ], 'incr';
    is_deeply scalar $cache->delete_multi(qw(a missing)), { a => 1, missing => q{} }, 'delete';
    my %many = map { ( "many$_" => "value $_" ) } 1 .. 1000;
    $cache->set_multi( map { [ $_ => $many{$_}, 60 ] } keys %many );
    is_deeply $cache->get_multi( keys %many ), \%many, 'a thousand';
};

subtest 'a quiet batch' => sub {
    is $cache->quiet( sub { my ($batch) = @_; $batch->set( "quiet$_" => $_ ) for 1 .. 100; } ), 1, 'all went well';
    is $cache->get('quiet77'), 77;
    my $error = eval {
        $cache->quiet( sub { $_[0]->add( quiet1 => 'x' ); $_[0]->delete('missing'); } );
        1;
    } ? undef : $@;
    isa_ok $error, 'Pinyon::Error::Batch';
    is_deeply [ map { [ @{$_}{qw(command key)} ] } $error->failures ], [ [ add => 'quiet1' ], [ delete => 'missing' ] ];
    my $batch = $cache->quiet;
    $batch->set( open => 1 );
    $batch->send;
    $batch->finish;
    is $cache->get('open'), 1, 'a batch without a block';
};

subtest 'metadata, servers and statistics' => sub {
    $cache->set( known => 'value', 100 );
    my $meta = $cache->meta('known');
    is $meta->{size},           5;
    is $cache->meta('missing'), undef;
    ok $cache->exists('known');
    ok !$cache->exists('missing');
    my $address = memcached()->{address};
    is_deeply [ $cache->servers ],             [$address];
    is_deeply [ $cache->servers_of('known') ], [$address];
    like $cache->version->{$address}, qr/^\d+\.\d+/;
    is $cache->stats->{$address}{threads}, 2;
    ok $cache->stats('settings')->{$address}{maxbytes};
    cmp_ok $cache->metrics->{$address}{sent}, '>', 0;
    is $cache->namespace, 'caches:';
};

subtest 'views' => sub {
    my $view = $cache->using( on_failure => 'miss' );
    $view->set( seen => 1 );
    is $cache->get('seen'), 1;
};

subtest 'a namespace is cleared, and others keep their items' => sub {
    my ( $cleared, $other ) = map { cache( namespace => $_, clearable => 1 ) } "cleared$$:", "other$$:";
    $_->set( a => 1 ) for $cleared, $other;
    is $cleared->clear_namespace, 1;
    is scalar $cleared->get('a'), undef;
    is scalar $other->get('a'),   1;
    ok !eval { $cache->clear_namespace; 1 };
    like $@, qr/clearable/, 'the error says what to set';
};

subtest 'flushing, and the end' => sub {
    my $other = cache( namespace => 'caches:' );
    is $other->flush_all,    1;
    is $other->get('known'), undef;
    $other->close;
    ok !eval { $other->get('known'); 1 };
    isa_ok $@, 'Pinyon::Error::Closed';
};

done_testing;
