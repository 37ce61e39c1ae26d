use 5.016;
use strict;
use warnings;
use utf8;

use FindBin qw($Bin);
use lib "$Bin/lib";
use POSIX ();
use Test::More;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output todo_output);

use Pinyon;
use Pinyon::Compat::Cache_Memcached_Fast;
use Servers  qw(eventually have_server GENEROUS);
use Compared qw(each_on_its_own_server play_both same_result stored_in new_server);

plan skip_all => 'memcached is not installed'              if !have_server('memcached');
plan skip_all => 'Cache::Memcached::Fast is not installed' if !eval { require Cache::Memcached::Fast; 1 };

my $class    = 'Pinyon::Compat::Cache_Memcached_Fast';
my %generous = ( io_timeout => GENEROUS, connect_timeout => GENEROUS );

sub both {
    my (%settings) = @_;
    return each_on_its_own_server( 'Cache::Memcached::Fast', $class, %generous, %settings );
}

subtest 'methods for one key return the same' => sub {
    my ( $original, $ours ) = both( namespace => 'n:' );
    play_both(
        $original,
        $ours,
        [ set     => word    => 'b' ],
        [ set     => word    => 'b', 60 ],
        [ set     => empty   => q{} ],
        [ set     => nothing => undef ],
        [ get     => 'nothing' ],
        [ get     => 'word' ],
        [ get     => 'missing' ],
        [ gets    => 'word' ],
        [ gets    => 'missing' ],
        [ gat     => 60,    'word' ],
        [ gat     => undef, 'word' ],
        [ gat     => 60,    'missing' ],
        [ gats    => 60,    'word' ],
        [ gats    => 60,    'missing' ],
        [ add     => word    => 'c' ],
        [ add     => added   => 'c' ],
        [ replace => word    => 'b' ],
        [ replace => missing => 'c' ],
        [ append  => word    => 'c' ],
        [ prepend => word    => 'a' ],
        [ append  => missing => 'c' ],
        [ prepend => missing => 'c' ],
        [ cas     => word    => 1,     'd' ],
        [ cas     => missing => 1,     'd' ],
        [ cas     => word    => undef, 'd' ],
        [ touch   => 'word' ],
        [ touch   => word => 60 ],
        [ touch   => 'missing' ],
        [ set     => number => 5 ],
        [ incr    => 'number' ],
        [ incr    => number => 10 ],
        [ incr    => number => undef ],
        [ incr    => number => 0 ],
        [ incr    => 'missing' ],
        [ decr    => number => 3 ],
        [ decr    => number => 1000 ],
        [ decr    => 'missing' ],
        [ incr    => number  => -1 ],
        [ set     => letters => 'abc' ],
        [ incr    => 'letters' ],
        [ set     => gone => 'x', -1 ],
        [ get     => 'gone' ],
        [ set     => later => 'x', time + 600 ],
        [ get     => 'later' ],
        [ set     => past => 'x', 31 * 24 * 60 * 60 ],
        [ get     => 'past' ],
        [ delete  => 'word' ],
        [ delete  => 'word' ],
        [ remove  => 'number' ],
        [ delete  => number => 5 ],
        [ set     => large  => 'x' x ( 1024 * 1024 + 1 ) ],
        [ set     => code   => sub { 1 } ],
    );
};

subtest 'methods for many keys return the same' => sub {
    my ( $original, $ours ) = both();
    my $large = 'x' x ( 1024 * 1024 + 1 );
    play_both(
        $original,
        $ours,
        ['set_multi'],
        [ set_multi     => [ a => 1 ], [ b => 2, 60 ], [ c => [3] ] ],
        [ set_multi     => [ large => $large ], [ b => 2 ] ],
        [ set_multi     => [ b => 2 ],          [ large => $large ] ],
        [ set_multi     => [ b => 2 ],          ['c'] ],
        [ set_multi     => [ b => 2 ],          'c' ],
        [ set_multi     => [ b => 2 ],          undef ],
        [ set_multi     => [ undef, 2 ] ],
        [ add_multi     => [ a     => 5 ], [ new     => 5 ] ],
        [ add_multi     => [ twice => 1 ], [ twice   => 2 ] ],
        [ replace_multi => [ a     => 5 ], [ missing => 5 ] ],
        [ append_multi  => [ a     => 5 ], [ missing => 5 ] ],
        [ prepend_multi => [ a     => 5 ], [ missing => 5 ] ],
        ['get_multi'],
        [ get_multi  => qw(a b c missing) ],
        [ gets_multi => qw(a b missing) ],
        [ gat_multi  => 60, qw(a b missing) ],
        [ gats_multi => 60, qw(a b missing) ],
        ['gat_multi'],
        [ cas_multi    => [ a => 1, 'x' ], [ missing => 1, 'x' ] ],
        [ cas_multi    => [ a => 1 ] ],
        [ touch_multi  => [ a => 60 ], ['b'], ['missing'] ],
        [ touch_multi  => 'a' ],
        [ incr_multi   => 'a', [ b => 5 ], 'missing' ],
        [ set          => letters => 'abc' ],
        [ incr_multi   => 'letters' ],
        [ decr_multi   => [ b => 500 ], 'missing' ],
        [ delete_multi => 'a', ['b'], [ c => 0 ], 'missing' ],
        [ delete_multi => [] ],
        [ set          => q{} => 'x' ],
        [ get          => q{} ],
    );
};

subtest 'other methods return the same' => sub {
    my ( $original, $ours, @servers ) = both( namespace => 'first:' );
    for my $call (
        ['namespace'],   [ namespace       => 'second:' ],
        ['namespace'],   [ enable_compress => 1 ],
        ['nowait_push'], ['disconnect_all'], [ set => a => 1 ]
        )
    {
        same_result( $original, $ours, @{$call} );
    }
    for my $method ( ['server_versions'], ['flush_all'], [ flush_all => 10 ] ) {
        my ( $name, @arguments ) = @{$method};
        my ($expected) = values %{ $original->$name(@arguments) };
        is_deeply $ours->$name(@arguments), { $servers[1]{address} => $expected }, "$name by the server";
    }
};

subtest 'both store the same bytes and flags' => sub {
    my @values = (
        [ bytes   => "a\x00\xff" ],
        [ integer => 5 ],
        [ real    => 0.5 ],
        [ text    => 'Зима' ],
        [
            marked => do { my $text = "caf\xe9"; utf8::upgrade($text); $text }
        ],
        [ list   => [ 1, 'two', { three => 3 } ] ],
        [ object => bless( { name => 'Ada' }, 'Some::Class' ) ],
        [ long   => 'abc' x 1000 ],
        [ nested => [ ('abc') x 1000 ] ],
        [ random => join q{}, map { chr( $_ * 7919 % 251 ) } 1 .. 150 ],
        [ 'Ключ' => 'x' ],
    );
    for my $settings (
        +{},
        { utf8               => 1 },
        { compress_threshold => 100 },
        { compress_threshold => 100, compress_ratio     => 0.001 },
        { utf8               => 1,   compress_threshold => 1, compress_ratio => 1 },
        { serialize_methods  => [ sub { ref $_[0] }, sub { [ $_[0] ] } ] },
        {
            compress_threshold => 1,
            compress_methods   => [ sub { ${ $_[1] } = substr ${ $_[0] }, 0, 1; 1 }, sub { ${ $_[1] } = ${ $_[0] } x 3; 1 } ]
        }
        )
    {
        my ( $original, $ours, @servers ) = both( %{$settings} );
        my $name = join( q{ }, sort keys %{$settings} ) || 'the defaults';
        for (@values) {
            next if !$settings->{utf8} && $_->[0] eq 'text';
            is $ours->set( @{$_} ), $original->set( @{$_} ), "set $_->[0] with $name";
        }
        my @keys = map { $_->[0] } @values;
        is_deeply stored_in( $servers[1], @keys ), stored_in( $servers[0], @keys ), "stored with $name";
        my $reader = $class->new( { %{$settings}, %generous, servers => [ $servers[0]{address} ] } );
        is_deeply $reader->get_multi(@keys), $original->get_multi(@keys), "what the original stored is read with $name";
        is_deeply $reader->get('marked'),    $original->get('marked'),    'alone, too';
    }
};

subtest 'a wide character without utf8 dies in the same way' => sub {
    my ( $original, $ours ) = both();
    my @died = map {
        eval { $_->set( key => 'Зима' ) };
        $@
    } ( $original, $ours );
    is $died[1], $died[0];
};

subtest 'what cannot be read is a miss' => sub {
    my ( $original, $ours ) = both( compress_threshold => 10 );
    for my $value ( [1], 'x' x 100 ) {
        for my $client ( $original, $ours ) {
            $client->set( spoiled => $value );
            $client->set( sound   => 'x' );
            $client->prepend( spoiled => 'garbage' );
        }
        same_result( $original, $ours, get       => 'spoiled' );
        same_result( $original, $ours, gets      => 'spoiled' );
        same_result( $original, $ours, get_multi => qw(spoiled sound) );
    }
};

subtest 'both find the keys of the other' => sub {
    my @servers = map { new_server()->{address} } 1 .. 3;
    my @keys    = map { "key:$_" } 1 .. 300;
    for my $settings (
        +{},
        { ketama_points => 150 },
        { ketama_points => 7 },
        { namespace     => 'space:' },
        { namespace     => 'space:', hash_namespace => 1 },
        { namespace     => 'space:', hash_namespace => 1, ketama_points => 160 }
        )
    {
        my @list = ( { address => $servers[0], weight => 1.5 }, $servers[1], [ $servers[2], 2.25 ] );
        my ( $original, $ours ) =
            map { $_->new( { %generous, %{$settings}, servers => \@list } ) } 'Cache::Memcached::Fast', $class;
        my $name = join( q{ }, %{$settings} ) || 'the defaults';
        $original->set_multi( map { [ $_ => "$name:$_" ] } @keys );
        is_deeply $ours->get_multi(@keys), { map { $_ => "$name:$_" } @keys }, "the original's keys with $name";
        is $ours->get('key:1'), "$name:key:1", 'alone, too';
        $ours->set_multi( map { [ $_ => "ours:$_" ] } @keys );
        is_deeply $original->get_multi(@keys), { map { $_ => "ours:$_" } @keys }, "our keys with $name";
    }
};

subtest 'commands that are not waited for' => sub {
    for my $settings ( { nowait => 1 }, { noreply => 1 } ) {
        my $server = new_server();
        my $ours   = $class->new(
            {
                %generous,
                nowait  => $settings->{nowait},
                servers => [ { address => $server->{address}, noreply => $settings->{noreply} } ]
            }
        );
        my @keys = map { "key:$_" } 1 .. 2500;
        $ours->set( $_ => $_ ) for @keys;
        $ours->replace( missing => 1 );
        $ours->set( "not a key\n" => 1 );
        is_deeply $ours->get_multi(@keys), { map { $_ => $_ } @keys }, 'come before those that are';
        $ours->delete_multi( @keys[ 0 .. 9 ] );
        $ours->set( number => 11 );
        $ours->incr('number');
        $ours->append( $keys[11] => 'x' );
        is $ours->get( $keys[0] ),  undef, 'many of them, too';
        is $ours->get('number'),    12;
        is $ours->get( $keys[11] ), 'key:12x';
        $ours->set( last => 1 );
        my $last = eventually { stored_in( $server, 'last' )->{last} };
        is $last->[0], 1, 'and are sent at once';
        $ours->set( 'final' => 1 );
        undef $ours;
        my $final = eventually { stored_in( $server, 'final' )->{final} };
        is $final->[0], 1, 'also before the end';
    }
};

subtest 'commands that are not waited for, after a fork and in a handler of signals' => sub {
    my $server = new_server();
    my $ours   = $class->new( { %generous, nowait => 1, servers => [ $server->{address} ] } );
    $ours->set( parent => 1 );
    my $child = fork // die "no child: $!\n";
    if ( !$child ) {
        $ours->set( child => $_ ) for 1 .. 3;
        POSIX::_exit( ( $ours->get('child') // 0 ) == 3 ? 0 : 1 );
    }
    waitpid $child, 0;
    is $?, 0, 'a child sends its own';
    is $ours->get('child'), 3;
    $ours->set( parent => $_ ) for 1 .. 3;
    is $ours->get('parent'), 3, 'and so does the parent';

    my $handled = 0;
    local $SIG{USR1} = sub { $ours->set( handled => ++$handled ); $ours->get('parent') };
    for my $number ( 1 .. 300 ) {
        kill USR1 => $$ if $number % 3 == 0;
        $ours->set( number => $number );
    }
    is $ours->get('number'),  300,      'the last one counts';
    is $ours->get('handled'), $handled, 'also of the handler';
    ok $handled;
};

subtest 'commands that are not waited for do what they do otherwise' => sub {
    my @commands = (
        ( map { [ set => "k$_" => '5', 60 ] } 1 .. 6 ),
        [ incr    => 'k1' ],
        [ incr    => 'k1', 30 ],
        [ decr    => 'k1', 2 ],
        [ incr    => 'k2', undef ],
        [ incr    => 'k2', '3' ],
        [ decr    => 'k2', -1 ],
        [ append  => 'k3', 'x' ],
        [ prepend => 'k3', 'y' ],
        [ append  => 'k3', "\x{e4}\x{2713}" ],
        [ delete  => 'k4' ],
        [ touch   => 'k5', -1 ],
        [ touch   => 'k6', 100 ],
        [ touch   => 'k6' ],
        [ touch   => 'k6',      time + 100 ],
        [ append  => 'missing', 'x' ],
        [ add     => 'k4',      'added' ],
        [ replace => 'k6',      'replaced', undef ],
    );
    my %found;
    for my $waits ( 0, 1 ) {
        my $server = new_server();
        my $ours   = $class->new( { %generous, utf8 => 1, nowait => !$waits, servers => [ $server->{address} ] } );
        my $pushed = 0;
        my $push   = Pinyon::Compat::Client->can('_push');
        no warnings 'redefine';    ## no critic (ProhibitNoWarnings)
        local *Pinyon::Compat::Client::_push = sub { $pushed++; goto &{$push} };
        for my $command (@commands) {
            my ( $method, @arguments ) = @{$command};
            if ($waits) { my $result = $ours->$method(@arguments) }
            else        { $ours->$method(@arguments) }
        }
        $found{$waits} = $ours->get_multi( map { "k$_" } 1 .. 6 );
        is $pushed, $waits ? 0 : 8, 'most of them without calls of Perl code';
    }
    is_deeply $found{0}, $found{1};
    is $found{1}{k1}, 34;
};

subtest 'a key in two encodings is found by both' => sub {
    my ( $original, $ours )  = both();
    my ( $marked,   $bytes ) = ( "\x{e9}", "\xc3\xa9" );
    utf8::upgrade($marked);
    $_->set( $bytes => 'found' ) for $original, $ours;
    play_both( $original, $ours, [ get_multi => $marked, $bytes ] );
};

subtest 'commands that fail and are not waited for are forgotten' => sub {
    my $server = new_server();
    my $ours   = $class->new( { %generous, nowait => 1, servers => [ $server->{address} ] } );
    $ours->set( there => 'first' );
    $ours->add( there => $_ ) for 1 .. 3000;
    is $ours->get('there'), 'first';
    $ours->replace( there => 'second', 60 );
    is $ours->get('there'), 'second';
};

subtest 'compressed and plain values that are not waited for keep their order' => sub {
    my $server = new_server();
    my $ours   = $class->new( { %generous, nowait => 1, compress_threshold => 100, servers => [ $server->{address} ] } );
    my $large  = 'large' x 100;
    for my $round ( 1 .. 50 ) {
        $ours->set( key   => $large );
        $ours->set( key   => "small $round" );
        $ours->set( other => "small $round" );
        $ours->set( other => $large );
    }
    is $ours->get('key'),   'small 50', 'the plain one was last';
    is $ours->get('other'), $large,     'the compressed one was last';
};

subtest 'a time that has come' => sub {
    my ( undef, $ours ) = both();
    $ours->set( now => 'x', time );
    is $ours->get('now'), undef, 'is no time without end';
};

subtest 'a server that is down' => sub {
    my ( $original, $ours ) = map { $_->new( { servers => ['127.0.0.1:1'] } ) } 'Cache::Memcached::Fast', $class;
    play_both(
        $original,
        $ours,
        [ set        => a => 1 ],
        [ cas        => a => 1, 1 ],
        [ get        => 'a' ],
        [ gets       => 'a' ],
        [ incr       => 'a' ],
        [ delete     => 'a' ],
        [ touch      => 'a' ],
        [ append     => a => 1 ],
        [ get_multi  => 'a',        'b' ],
        [ set_multi  => [ a => 1 ], [ b => 1 ] ],
        [ incr_multi => 'a' ],
        ['server_versions'],
        ['flush_all'],
    );
    my ( $without, $ours_without ) = map { $_->new( { servers => [] } ) } 'Cache::Memcached::Fast', $class;
    play_both(
        $without, $ours_without,
        [ set       => a => 1 ],
        [ get       => 'a' ],
        [ get_multi => 'a' ],
        [ set_multi => [ a => 1 ] ],
        ['server_versions'], ['disconnect_all'],
    );
};

subtest 'a key that would break out is never sent' => sub {
    my ( undef, $ours, undef, $server ) = both();
    $ours->set( a => 1 );
    for my $key ( "b 0 0 1\r\nx\r\ndelete a", 'two words', 'k' x 251 ) {
        is $ours->set( $key => 1 ), undef, 'set';
        is $ours->get($key),        undef, 'get';
        is_deeply $ours->get_multi( $key, 'a' ), { a => 1 }, 'get_multi';
        is_deeply [ $ours->set_multi( [ $key => 1 ], [ a => 1 ] ) ], [ undef, 1 ], 'set_multi';
    }
};

subtest 'a handler that dies ends a call' => sub {
    my ( undef, $ours, undef, $server ) = both();
    $ours->set( a => 1 );
    $server->pause;
    my $result = eval {
        local $SIG{ALRM} = sub { die "too slow\n" };
        alarm 1;
        $ours->get('a');
        1;
    };
    is $@, "too slow\n", 'and its message is kept';
    $server->resume;
    is $ours->get('a'), 1, 'the next call is not disturbed';
};

done_testing;
