use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache have_server in_child memcached GENEROUS);
use Ways;

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my $plain    = cache();
my @settings = ( servers => [ memcached()->{address} ], timeout => GENEROUS, connect_timeout => GENEROUS );

# What a call of the model died of.
sub error_of {
    my ( $way, $call ) = @_;
    return eval { $way->got( scalar $call->() ); 1 } ? undef : $@;
}

# What is not carried out, in every way of waiting.
sub fill {
    my ($batch) = @_;
    $batch->set( 'batch:a' => 1 );
    $batch->add( 'batch:a' => 2 );
    $batch->incr('batch:a');
    $batch->incr('batch:no');
    $batch->replace( 'batch:no' => 1 );
    $batch->append( 'batch:no' => 1 );
    $batch->touch( 'batch:no', 10 );
    $batch->delete('batch:no');
    $batch->delete('batch:a');
    return;
}

sub shown {
    my ($error) = @_;
    return [ ref $error, $error->message, map { [ @{$_}{qw(command key reason)}, ref $_->{error} ] } $error->failures ];
}

sub first_of {
    my ($error)   = @_;
    my ($failure) = $error->failures;
    return $failure;
}

sub check {
    my ( $way, $expected ) = @_;
    my $cache = $way->cache(@settings);
    my $batch = $cache->quiet;
    isa_ok $batch, 'Pinyon::Batch';
    is $way->got( scalar $batch->finish ), 1, 'an empty batch';
    fill($batch);
    my $error = error_of( $way, sub { $batch->finish } );
    is_deeply shown($error), $expected, 'what was not carried out';
    is $way->got( scalar $batch->finish ), 1, 'nothing is told twice';
    $batch->delete('batch:b');
    is first_of( error_of( $way, sub { $batch->finish } ) )->{key}, 'batch:b', 'numbers go on';
    is $way->got(
        scalar $cache->quiet(
            sub {
                my ($inner) = @_;
                $inner->set( "number:$_" => $_ ) for 1 .. 1500;
                $inner->send;
            }
        )
        ),
        1, 'many commands';
    is $plain->get('number:1500'), 1500, 'are carried out';
    ok !eval { $batch->set('batch:c'); 1 }, 'arguments are checked';
    isa_ok $@, 'Pinyon::Error::Usage';
    ok !eval { $batch->set( 'with space' => 1 ); 1 }, 'keys are, too';
    isa_ok $@, 'Pinyon::Error::InvalidKey';
    is $way->got( scalar $batch->finish ), 1, 'and nothing is left of them';
    my $dead = $way->cache( servers => ['127.0.0.1:1'], timeout => GENEROUS, connect_timeout => GENEROUS )->quiet;
    $dead->set( key => 1 );
    $error = error_of( $way, sub { $dead->finish } );
    isa_ok first_of($error)->{error}, 'Pinyon::Error::Connect', 'why the server did not';

    # Nothing is stored at all if any argument makes no sense.
    $plain->delete_multi(qw(many:a many:b));
    my $later = cache();
    for my $wrong ( [ 'many:b', {}, 'no' ], [undef], [ undef, 1 ], ['many:b'], 'many:b', [ 'many:b', sub { 1 } ], [ 1 .. 20 ] )
    {
        my $died = error_of( $way, sub { $cache->set_multi( [ 'many:a' => 1 ], $wrong ) } );
        isa_ok $died, 'Pinyon::Error', 'a wrong argument';
    }
    isa_ok error_of( $way, sub { $cache->incr_multi( 'many:a', [ 'many:a', 'x' ] ) } ), 'Pinyon::Error::Usage', 'a count';
    isa_ok error_of( $way, sub { $cache->get_multi( 'many:a', undef ) } ), 'Pinyon::Error::UnsupportedType',    'no key';
    is $way->got( scalar $cache->get('many:a') ), undef, 'nothing was stored';
    $error = error_of( $way, sub { $cache->set_multi( [ 'many:a' => 1 ], [ 'with space' => 1 ], [ 'many:b' => 2 ] ) } );
    isa_ok $error, 'Pinyon::Error::InvalidKey', 'a key that cannot be sent';
    is_deeply $error->partial, { 'many:a' => 1, 'many:b' => 1 }, 'is the only one that is not';
    isa_ok error_of( $way, sub { $cache->get_multi('with space') } ), 'Pinyon::Error::InvalidKey', 'one alone';
    is_deeply $way->got( scalar $cache->get_multi(qw(many:a many:b)) ), { 'many:a' => 1, 'many:b' => 2 }, 'the others';
    return;
}

# Keys that are read.
sub check_reading {
    my ($way)  = @_;
    my $cache  = $way->cache(@settings);
    my %stored = map { ( "read:$_" => $_ % 2 ? [$_] : "value $_" ) } 1 .. 50;
    $plain->set_multi( map { [ $_ => $stored{$_} ] } keys %stored );
    is_deeply $way->got( scalar $cache->get_multi( keys %stored, 'read:no' ) ), \%stored, 'of all kinds';
    my $pairs = $way->got( scalar $cache->gets_multi( [ 'read:1', 'read:2' ] ) );
    is_deeply {
        map { $_ => $pairs->{$_}[0] } keys %{$pairs}
    }, { 'read:1' => [1], 'read:2' => 'value 2' }, 'with tokens';
    is $plain->cas( 'read:1', 'new', $pairs->{'read:1'}[1] ), 1, 'which are right';
    is_deeply $way->got( scalar $cache->get_multi( 'read:2', 'read:2', 'read:no' ) ), { 'read:2' => 'value 2' }, 'a key twice';

    my $before = $plain->stats->{ memcached()->{address} }{cmd_get};
    is keys %{ $way->got( scalar $cache->get_multi( map { "read:$_" } 2 .. 10 ) ) }, 9;
    is $plain->stats->{ memcached()->{address} }{cmd_get} - $before, 9, 'each is asked for once';

    cache( serializer => 'raw' )->append( 'read:3', 'rubbish' );
    my $error = error_of( $way, sub { $cache->get_multi(qw(read:2 read:3 read:4)) } );
    isa_ok $error, 'Pinyon::Error::UndecodableValue', 'one that cannot be read';
    is_deeply $error->partial, { 'read:2' => 'value 2', 'read:4' => 'value 4' }, 'is the only one'
        if ref $way ne 'Ways::Blocking';

    my %errors;
    my $half = $way->cache( servers => [ memcached()->{address}, '127.0.0.1:1' ], failover => 0, timeout => GENEROUS );
    my $some = $way->got( scalar $half->get_multi( [ map { "read:$_" } 5 .. 50 ], failed => \%errors ) );
    is_deeply [ keys %errors ], ['127.0.0.1:1'], 'a server that fails';
    cmp_ok scalar keys %{$some}, '>', 0, 'and one that does not';
    $error = error_of(
        $way,
        sub {
            $half->get_multi( map { "read:$_" } 5 .. 50 );
        }
    );
    is_deeply $error->partial, $some;
    is $error->file, __FILE__, 'an error says where the call was';
    return;
}

my $expected;
{
    my $batch = $plain->quiet;
    fill($batch);
    eval { $batch->finish; 1 } and die 'it should have failed';
    $expected = shown($@);
}
is scalar @{$expected}, 2 + 6, 'six are not carried out';

subtest 'programs that wait' => sub {
    check( Ways::Blocking->new, $expected );
    check_reading( Ways::Blocking->new );
};
subtest 'a coroutine that leaves, and a child' => sub {
    my $way = Ways::Coro->new;
    if ( my $missing = $way->missing ) { plan skip_all => "$missing does not load" }
    my $cache     = $way->cache(@settings);
    my $batch     = $cache->quiet;
    my $coroutine = Coro::async(
        sub {
            $batch->delete('batch:no');
            eval { $batch->finish };
            return $@;
        }
    );
    Coro::cede();
    $coroutine->throw("thrown\n");
    is $coroutine->join, "thrown\n", 'it leaves';
    ok !eval { $batch->finish; 1 }, 'the outcome is there still';
    is first_of($@)->{key}, 'batch:no', 'with what failed';
    $way->cache(@settings)->set( 'many:there' => 1 );
    my $error = error_of(
        $way,
        sub {
            $cache->quiet( sub { $_[0]->add( 'many:there' => $_ ) for 1 .. 5000 } );
        }
    );
    is scalar( my @all = $error->failures ), 5000, 'a batch that had to wait tells all that failed';
    my $said = in_child { $batch->set( key => 1 ); return 'set' };
    like $said, qr/died: .*another event loop/, 'a batch stays with its process';
};

for my $model (qw(Coro AnyEvent Future)) {
    my $way = "Ways::$model"->new;
    subtest $model => sub {
        if ( my $missing = $way->missing ) { plan skip_all => "$missing does not load" }
        check( $way, $expected );
        check_reading($way);
    };
}

done_testing;
