use 5.016;
use strict;
use warnings;

use Config;
use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(eventually have_server in_child memcached server GENEROUS);
use Ways;

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my @generous  = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my @addresses = ( memcached()->{address}, server( qw(memcached -u), scalar getpwuid($>), qw(-s SOCKET -t 2) )->{address} );

# How the client of the old pool differs, besides its server: values through Storable, with the flags of another client.
my @old = ( servers => [ $addresses[0] ], dialect => 'cache-memcached-fast', serializer => 'storable', @generous );
my @new = ( servers => [ $addresses[1] ], @generous );

sub class_of {
    my ($client) = @_;
    return ref($client) =~ s/Cache\z/MigratingCache/r;
}

# An operation if only the old pool has 7, or if neither has a value: its result, and what the pools have afterwards.
my @operations = (
    [ get          => sub { $_[0]->get( $_[1] ) },                [ 7,            7, 7 ], [ undef, undef, undef ] ],
    [ get_multi    => sub { $_[0]->get_multi( $_[1], 'other' ) }, [ { key => 7 }, 7, 7 ], [ {},    undef, undef ] ],
    [ get_with_ttl => sub { $_[0]->get_with_ttl( $_[1] ) },       [ [ 7, undef ], 7, 7 ], [ undef, undef, undef ] ],
    [ gat          => sub { $_[0]->gat( $_[1], 1000 ) },          [ 7,            7, 7 ], [ undef, undef, undef ] ],
    [ touch        => sub { $_[0]->touch( $_[1], 1000 ) },        [ 1,            7, 7 ], [ q{},   undef, undef ] ],
    [ exists       => sub { $_[0]->exists( $_[1] ) },             [ 1,            7, 7 ], [ q{},   undef, undef ] ],
    [
        get_or_set => sub {
            $_[0]->get_or_set( $_[1], sub { 8 }, ttl => 60 );
        },
        [ 7, 7,     7 ],
        [ 8, undef, 8 ]
    ],
    [ set          => sub { $_[0]->set( $_[1] => 8 ) },           [ 1,            undef, 8 ],  [ 1,            undef, 8 ] ],
    [ set_multi    => sub { $_[0]->set_multi( [ $_[1] => 8 ] ) }, [ { key => 1 }, undef, 8 ],  [ { key => 1 }, undef, 8 ] ],
    [ add          => sub { $_[0]->add( $_[1] => 8 ) },           [ q{},          7,     7 ],  [ 1,            undef, 8 ] ],
    [ replace      => sub { $_[0]->replace( $_[1] => 8 ) },       [ 1,            undef, 8 ],  [ q{},          undef, undef ] ],
    [ append       => sub { $_[0]->append( $_[1] => '1' ) },      [ 1,            undef, 71 ], [ q{},          undef, undef ] ],
    [ prepend      => sub { $_[0]->prepend( $_[1] => '1' ) },     [ 1,            undef, 17 ], [ q{},          undef, undef ] ],
    [ incr         => sub { $_[0]->incr( $_[1] ) },               [ 8,            undef, 8 ],  [ undef,        undef, undef ] ],
    [ incr_initial => sub { $_[0]->incr( $_[1], 1, initial => 1 ) }, [ 8, undef, 8 ],          [ 1, undef, 1 ] ],
    [ incr_multi   => sub { $_[0]->incr_multi( $_[1] ) }, [ { key => 8 }, undef, 8 ],     [ { key => undef }, undef, undef ] ],
    [ decr         => sub { $_[0]->decr( $_[1] ) },       [ 6,            undef, 6 ],     [ undef,            undef, undef ] ],
    [ delete       => sub { $_[0]->delete( $_[1] ) },     [ 1,            undef, undef ], [ q{},              undef, undef ] ],
    [ delete_stale => sub { $_[0]->delete( $_[1], stale => 30 ) }, [ 1, undef, 7 ],       [ q{}, undef, undef ] ],
    [ delete_multi => sub { $_[0]->delete_multi( $_[1] ) }, [ { key => 1 }, undef, undef ], [ { key => q{} }, undef, undef ] ],
);

my ( $old, $new ) = ( Pinyon::Cache->new(@old), Pinyon::Cache->new(@new) );

sub start {
    my ($value) = @_;
    $_->delete('key') for $old, $new;
    $old->set( key => $value ) if defined $value;
    return;
}

sub check {
    my ($way)   = @_;
    my @clients = map { $way->cache( @{$_} ) } \@old, \@new;
    my $class   = class_of( $clients[0] );
    my $cache   = $class->new(@clients);
    my $called  = sub {
        my ($call) = @_;
        return $way->got( scalar $call->( $cache, 'key' ) );
    };
    isa_ok $cache, 'Pinyon::MigratingCache';
    for my $operation (@operations) {
        my ( $name, $call, $found, $missing ) = @{$operation};
        start(7);
        is_deeply [ $called->($call), map { scalar $_->get('key') } $old, $new ], $found, "$name of what the old pool has";
        start(undef);
        is_deeply [ $called->($call), map { scalar $_->get('key') } $old, $new ], $missing, "$name of nothing";
    }

    # Values of each client's own: data that Storable has written is portable afterwards; an object stays where it is.
    start( { list => [ 1, 'two' ], text => "\x{263a}" } );
    my $raw = Pinyon::Cache->new( @new, serializer => 'portable' );
    for my $time (qw(first later)) {
        is_deeply $called->( sub { $_[0]->get('key') } ), { list => [ 1, 'two' ], text => "\x{263a}" }, "data, $time";
    }
    is_deeply $raw->get('key')->{list}, [ 1, 'two' ], 'it has been moved';
    start( bless { name => 'Ada' }, 'Some::Object' );
    my $before = $cache->progress;
    for my $call ( sub { $_[0]->get('key') }, sub { $_[0]->get('key') }, sub { $_[0]->get_multi('key') } ) {
        my $got = $called->($call);
        isa_ok ref $got eq 'HASH' ? $got->{key} : $got, 'Some::Object', 'what cannot be moved';
    }
    is $new->get('key'),                                 undef, 'it stays';
    is $cache->progress->{refused} - $before->{refused}, 3,     'and is counted';

    # A token, and a lease.
    start(7);
    my $pair = $called->( sub { $_[0]->gets('key') } );
    ok $called->( sub { $_[0]->cas( key => 8, $pair->[1] ) } ), 'a token of the new pool';
    is_deeply [ map { scalar $_->get('key') } $old, $new ], [ undef, 8 ], 'stored there';
    start(undef);
    my $lease = $called->( sub { $_[0]->lease('key') } );
    ok $lease->is_won,                              'a lease is won';
    ok $way->got( scalar $lease->fulfil( 9, 60 ) ), 'and fulfilled';
    is_deeply [ map { scalar $_->get('key') } $old, $new ], [ undef, 9 ], 'in the new pool';

    # Many keys; both pools' servers; views; what it has not.
    $old->set( "many:$_" => $_ ) for 1 .. 30;
    my @keys = map { "many:$_" } 1 .. 30;
    my %all  = map { ( "many:$_" => $_ ) } 1 .. 30;
    is_deeply $called->( sub { $_[0]->get_multi(@keys) } ), \%all, 'many';
    my $tokens = $called->( sub { $_[0]->gets_multi(@keys) } );
    is_deeply {
        map { $_ => $tokens->{$_}[0] } keys %{$tokens}
    }, \%all, 'with tokens';
    is_deeply $new->get_multi(@keys),                                 \%all,               'all of them are moved';
    is_deeply [ sort keys %{ $called->( sub { $_[0]->version } ) } ], [ sort @addresses ], 'both are asked';
    ok !eval { $cache->quiet; 1 }, 'no batches';
    isa_ok $@, 'Pinyon::Error::Usage';
    start( bless { name => 'Ada' }, 'Some::Object' );
    my $view = $cache->using( on_failure => 'miss' );
    isa_ok $way->got( scalar $view->get('key') ), 'Some::Object', 'through a view';
    cmp_ok $cache->progress->{old}, '>', 30, 'it counts for both';
    $_->delete_multi( 'key', @keys ) for $old, $new;
    return;
}

# Threads come before Coro, which does not go with them.
subtest 'serializers in Perl' => sub {
    {

        package Shouting;
        sub new { return bless {}, shift }

        sub dump {
            my ( $self, $value ) = @_;
            die "never\n" if $value eq 'never';
            exit 7        if $value eq 'exit';
            return ( uc $value, 64 );
        }
        sub load { my ( $self, $bytes ) = @_; return lc $bytes }
    }
    my $shouting = Pinyon::Cache->new( @new, serializer => Shouting->new );
    my $cache    = Pinyon::MigratingCache->new( $old, $shouting );
    start('hello');
    $@ = 'kept';
    is $cache->get('key'), 'hello', 'converted';
    is $@,                 'kept',  '$@ is the caller\'s';
    is( Pinyon::Cache->new( @new, serializer => 'raw' )->get('key'), 'HELLO', 'by the new serializer' );
    start('never');
    is $cache->get('key'), 'never', 'a serializer that dies leaves the value where it is';
    is_deeply [ @{ $cache->progress }{qw(moved refused)} ], [ 1, 1 ], 'and it is counted';
    start('exit');
    my $said = in_child {
        my $again = fork // die "fork: $!";
        if ( !$again ) {
            Pinyon::MigratingCache->new( $old, $shouting )->get('key');
            POSIX::_exit(0);
        }
        waitpid $again, 0;
        return $? >> 8;
    };
    is $said, 7, 'one that ends the program ends it';
    SKIP: {
        skip 'this perl has no threads', 2 if !$Config{useithreads};
        require threads;
        start('thread');
        my $thread = threads->create( sub { return $cache->get('key') } );
        is $thread->join,         'thread', 'in another thread';
        is $shouting->get('key'), 'thread', 'it is moved';
    }
};

subtest 'Mojo' => sub {

    # Before there are coroutines, which have a loop of their own.
    plan skip_all => 'Mojo does not load' if !eval { require Pinyon::Mojo; 1 };
    local $ENV{MOJO_REACTOR} = 'Mojo::Reactor::Poll';
    my $cache = Pinyon::Mojo::MigratingCache->new( Pinyon::Mojo::Cache->new(@old), Pinyon::Mojo::Cache->new(@new) );
    start(7);
    my $got;
    $cache->get('key')->then( sub { $got = shift; $cache->incr('key') } )->then( sub { $got .= shift } )->wait;
    is $got, '78', 'a promise';
    is_deeply [ map { scalar $_->get('key') } $old, $new ], [ undef, 8 ], 'what the pools have';
};

subtest 'programs that wait' => sub { check( Ways::Blocking->new ) };

for my $model (qw(Coro AnyEvent Future)) {
    my $way = "Ways::$model"->new;
    subtest $model => sub {
        if ( my $missing = $way->missing ) { plan skip_all => "$missing does not load" }
        check($way);
    };
}

subtest 'what is refused' => sub {
    ok !eval { Pinyon::MigratingCache->new( $new, $new ); 1 }, 'one client twice';
    isa_ok $@, 'Pinyon::Error::Usage';
    is $@->file, __FILE__, 'where it was called';
    ok !eval { Pinyon::MigratingCache->new( $new, Pinyon::Cache->new(@new) ); 1 }, 'two clients of the same keys';
    like $@->message, qr/give the new client a namespace/, 'what to do';
    ok !eval { Pinyon::MigratingCache->new( $old, 'new' ); 1 }, 'something else';
    ok !eval { Pinyon::MigratingCache->new( $old, $new, tll => 1 ); 1 }, 'an unknown setting';
    like $@->message, qr/"tll"/, 'which is named';
    my ( $one, $two ) = ( Pinyon::Cache->new(@old), Pinyon::Cache->new(@new) );
    Pinyon::MigratingCache->new( $one, $two )->close;
    ok !eval { $one->get('key'); 1 } && !eval { $two->get('key'); 1 }, 'close closes both';
    isa_ok $@, 'Pinyon::Error::Closed';
    my $dead = Pinyon::MigratingCache->new( $old, Pinyon::Cache->new( servers => ['127.0.0.1:1'] ) );
    start(7);
    ok !eval { $dead->get('key');       1 }, 'a new pool that is down';
    ok !eval { $dead->get_multi('key'); 1 }, 'also for many keys';
    is $@->server, '127.0.0.1:1', 'is named';
};

done_testing;
