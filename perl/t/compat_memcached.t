use 5.016;
use strict;
use warnings;
use utf8;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output todo_output);

use Pinyon;
use Pinyon::Compat::Cache_Memcached;
use Servers  qw(have_server GENEROUS);
use Compared qw(each_on_its_own_server play_both same_result stored_in new_server);

plan skip_all => 'memcached is not installed'        if !have_server('memcached');
plan skip_all => 'Cache::Memcached is not installed' if !eval { require Cache::Memcached; 1 };

my $class    = 'Pinyon::Compat::Cache_Memcached';
my %generous = ( select_timeout => GENEROUS, connect_timeout => GENEROUS );

sub both {
    my (%settings) = @_;
    return each_on_its_own_server( 'Cache::Memcached', $class, %generous, %settings );
}

subtest 'methods return the same' => sub {
    my ( $original, $ours ) = both( namespace => 'n:' );
    play_both(
        $original,
        $ours,
        [ set       => word    => 'b' ],
        [ set       => word    => 'b', 60 ],
        [ set       => nothing => undef ],
        [ get       => 'nothing' ],
        [ get       => 'word' ],
        [ get       => 'missing' ],
        [ add       => word    => 'c' ],
        [ add       => added   => 'c' ],
        [ replace   => word    => 'b' ],
        [ replace   => missing => 'c' ],
        [ append    => word    => 'c' ],
        [ prepend   => word    => 'a' ],
        [ append    => missing => 'c' ],
        [ append    => word    => [1] ],
        [ append    => word    => undef ],
        [ set       => number  => 5 ],
        [ incr      => 'number' ],
        [ incr      => number => 10 ],
        [ incr      => 'missing' ],
        [ decr      => number => 3 ],
        [ decr      => number => 1000 ],
        [ decr      => 'missing' ],
        [ set       => letters => 'abc' ],
        [ incr      => 'letters' ],
        [ set       => gone => 'x', -1 ],
        [ get       => 'gone' ],
        [ set       => later => 'x', time + 600 ],
        [ get       => 'later' ],
        [ set       => list => [1] ],
        [ get       => 'list' ],
        [ get_multi => qw(word list missing) ],
        [ set       => [ 5, 'paired' ], 'x' ],
        [ get       => [ 5, 'paired' ] ],
        [ get_multi => [ 5, 'paired' ], 'word' ],
        [ delete    => 'word' ],
        [ delete    => 'word' ],
        [ delete    => [ 5, 'paired' ] ],
        ['get_multi'],
        ['flush_all'],
        ['forget_dead_hosts'],
    );
};

subtest 'counters take what memcached takes' => sub {
    my ( $original, $ours ) = both();
    my @numbers = ( -1, '2x', 2.7, ' 3 ', '007', 1e20, 1e3, '18446744073709551615', '18446744073709551616', 'x', 2.0, undef );

    # memcached 1.6.45 refuses the sign, which Pinyon does not send.
    $_->set( c => 50 ) for $original, $ours;
    is $ours->incr( c => '+2' ), 52;
    push @numbers, '+2' if $original->incr( c => '+2' );
    for my $number (@numbers) {
        play_both( $original, $ours, map { ( [ set => c => 50 ], [ $_ => 'c', $number ], [ get => 'c' ] ) } qw(incr decr) );
    }
};

subtest "the program's handler does not hear of failures that are no failures" => sub {
    my $ours = $class->new( servers => ['127.0.0.1:1'], %generous );
    local $SIG{__DIE__} = sub { fail "it hears of $_[0]" };
    is $ours->get('a'), undef;
    is_deeply $ours->get_multi(qw(a b)), {};
    ok !$ours->set( a => 1 );
    my ( $original, $there ) = both();
    $there->set( word => 'w' );
    is $there->incr('word'), undef;
    ok !$there->set( 'a b' => 1 );
};

{

    package WithFields;
    use base 'Pinyon::Compat::Cache_Memcached';
    use fields qw(own);

    sub new {
        my ( $class, @given ) = @_;
        my $self = fields::new($class);
        $self->SUPER::new(@given);
        $self->{own} = 'mine';
        return $self;
    }
}

subtest 'a subclass with fields' => sub {
    my ( $original, $ours, @servers ) = both();
    my $sub = WithFields->new( servers => [ $servers[1]{address} ], %generous );
    ok $sub->set( a => 1 );
    is $sub->get('a'), 1;
    is $sub->{own},    'mine';
};

subtest 'both store the same bytes and flags' => sub {
    my @values = (
        [ bytes   => "a\x00\xff" ],
        [ integer => 5 ],
        [ real    => 0.5 ],
        [ list    => [ 1, 'two', { three => 3 } ] ],
        [ long    => 'abc' x 1000 ],
        [ nested  => [ ('abc') x 1000 ] ],
        [ random  => join q{}, map { chr( $_ * 7919 % 251 ) } 1 .. 150 ],
    );
    for my $settings ( +{}, { compress_threshold => 100 } ) {
        my ( $original, $ours, @servers ) = both( %{$settings} );
        is $ours->set( @{$_} ), $original->set( @{$_} ), "set $_->[0]" for @values;
        my @keys = map { $_->[0] } @values;
        is_deeply stored_in( $servers[1], @keys ), stored_in( $servers[0], @keys ), 'stored';
        my $reader = $class->new( servers => [ $servers[0]{address} ], %generous );
        is_deeply $reader->get_multi(@keys), $original->get_multi(@keys), 'what the original stored is read';
    }
};

subtest 'both find the keys of the other' => sub {
    my @servers = map { new_server()->{address} } 1 .. 3;
    my @keys    = map { "key:$_" } 1 .. 300;
    my @list    = ( [ $servers[0], 3 ], $servers[1], [ $servers[2], 2 ] );
    for my $settings ( +{}, { namespace => 'space:' } ) {
        my ( $original, $ours ) =
            map { $_->new( { %generous, %{$settings}, servers => \@list } ) } 'Cache::Memcached', $class;
        $original->set( $_ => "original:$_" ) for @keys;
        is_deeply $ours->get_multi(@keys), { map { $_ => "original:$_" } @keys }, "the original's keys";
        $ours->set( $_ => "ours:$_" ) for @keys;
        is_deeply $original->get_multi(@keys), { map { $_ => "ours:$_" } @keys }, 'our keys';

        $original->set( [ $_, "paired:$_" ], $_ ) for 1 .. 20;
        my $found = $ours->get_multi( 'key:1', map { [ $_, "paired:$_" ] } 1 .. 20 );
        is_deeply $found, { 'key:1' => 'ours:key:1', map { ( "paired:$_" => $_ ) } 1 .. 20 }, 'with a number of its own';
    }
};

subtest 'statistics' => sub {
    my ( $original, $ours, @servers ) = both();
    $_->set( a => 1 ) for $original, $ours;
    my ( $expected, $got ) = map { $_->stats } $original, $ours;
    is_deeply [ sort keys %{$got} ],            [ sort keys %{$expected} ],            'kinds';
    is_deeply [ sort keys %{ $got->{total} } ], [ sort keys %{ $expected->{total} } ], 'totals';
    is $got->{total}{cmd_set}, 1, 'are counted';
    my @names = map { [ sort keys %{ $_->[0]{hosts}{ $_->[1]{address} }{misc} } ] } [ $expected, $servers[0] ],
        [ $got, $servers[1] ];
    is_deeply $names[1], $names[0], 'of a server';
    is $got->{self}{set}, 1, 'of the object';
    like $ours->stats('settings')->{hosts}{ $servers[1]{address} }{settings}, qr/^STAT maxconns \d+\r$/m, 'another kind';
    is $ours->stats_reset, 1;
    is $ours->stats('misc')->{total}{cmd_set}, 0, 'reset';
};

subtest 'settings that change' => sub {
    my ( undef, $ours, @servers ) = both();
    $ours->set( a => 1 );
    $ours->set_readonly(1);
    is $ours->set( a => 2 ), 0, 'readonly';
    is $ours->incr('a'),     undef;
    is $ours->get('a'),      1;
    $ours->set_readonly(0);

    my @told;
    $ours->set_stat_callback( sub { push @told, \@_ } );
    $ours->get('a');
    is_deeply [ @{ $told[0] }[ 2, 3 ] ], [ $servers[1]{address}, 'get_multi' ], 'stat_callback';
    $ours->set_stat_callback(undef);

    $ours->set_compress_threshold(10);
    $ours->set( long => 'x' x 100 );
    is stored_in( $servers[1], 'long' )->{long}[1], 2, 'compress_threshold';
    $ours->enable_compress(0);
    $ours->set( long => 'x' x 100 );
    is stored_in( $servers[1], 'long' )->{long}[1], 0, 'enable_compress';

    $ours->set_servers( [ $servers[0]{address} ] );
    is $ours->get('a'), undef, 'set_servers';
    $ours->set_servers( [] );
    is $ours->set( a => 1 ), 0, 'no servers';
    is_deeply $ours->get_multi('a'), {};
};

subtest 'a server that is down' => sub {
    my ( $original, $ours ) = map { $_->new( servers => ['127.0.0.1:1'] ) } 'Cache::Memcached', $class;
    my @told;
    $ours->set_cb_connect_fail( sub { push @told, $_[0] } );
    play_both(
        $original, $ours,
        [ set       => a => 1 ],
        [ get       => 'a' ],
        [ incr      => 'a' ],
        [ delete    => 'a' ],
        [ get_multi => 'a', 'b' ],
        ['flush_all'],
    );
    is $told[0], '127.0.0.1:1', 'cb_connect_fail';
};

subtest 'code that names the originals' => sub {
    my $server  = new_server();
    my @include = map { "-I$_" } grep { !ref } @INC;
    for my $name ( 'Cache::Memcached', 'Cache::Memcached::Fast' ) {
        my $program = <<"PROGRAM";
use $name;
my \$memd = $name->new({ servers => ['$server->{address}'], connect_timeout => 60, select_timeout => 60 });
\$memd->set(a => 5);
print \$memd->get('a'), ' ', ref \$memd, ' ', \$memd->isa('Pinyon::Compat::Client') ? 'ours' : 'original';
PROGRAM
        open my $output, '-|', $^X, @include, "-MPinyon::Compat::Replace=$name", '-e', $program or die $!;
        is scalar(<$output>), "5 $name ours", "$name by use Pinyon::Compat::Replace";
        close $output;
        require Pinyon::Compat::Replace;
        open $output, '-|', $^X, '-I' . Pinyon::Compat::Replace::folder(), @include, '-e', $program or die $!;
        is scalar(<$output>), "5 $name ours", "$name by the folder";
        close $output;
    }
};

done_testing;
