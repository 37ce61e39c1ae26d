use 5.016;
use strict;
use warnings;

use Config;
use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;
use if $Config{useithreads}, 'threads';

use Pinyon;
use Servers qw(eventually have_server locks redis GENEROUS);
use Ways    ();

plan skip_all => 'redis-server is not installed' if !have_server('redis-server');

# The scenarios have who waits for whom.
use constant LIMIT => 3;

my $locks = locks();
my $other = locks();

# What the block died of.
sub died_of(&) {    ## no critic (ProhibitSubroutinePrototypes)
    my ($block) = @_;
    return eval { $block->(); 1 } ? undef : $@;
}

subtest 'readers are there together, and a writer is not' => sub {
    {
        my $mine   = $locks->read( [qw(catalog prices)] );
        my $others = $other->read('catalog');
        is_deeply [ $mine->names ], [qw(catalog prices)];
        is scalar( my @names = $others->names ),     1;
        is $other->try_lock( 'prices', owner => 7 ), undef;
        isa_ok died_of { $other->write( 'prices', timeout => 0, owner => 7 ) }, 'Pinyon::Error::LockTimeout';
        isa_ok died_of { $locks->write('prices') },                             'Pinyon::Error::AlreadyHeld';
        my $status = $locks->status('catalog');
        is scalar @{ $status->{readers} }, 2;
        ok grep { $_ eq $status->{holder} } @{ $status->{readers} };
    }
    my $written = $other->write( 'catalog', timeout => GENEROUS );
    my $status  = $locks->status('catalog');
    is_deeply [ $status->{readers}, $status->{token} ], [ [], $written->token ];
    is $locks->try_lock( [], read => 'catalog' ), undef;
};

subtest 'names to write, to read, and permits are one request' => sub {
    my $stripe = $locks->permits( 'stripe', limit => LIMIT );
    is $stripe->available, LIMIT;
    {
        my $lock = $locks->lock( 'order:7', read => ['catalog'], permits => { stripe => 2 } );
        is_deeply [ $lock->names ], [qw(order:7 catalog)];
        is $stripe->available,                                                   1;
        is $other->permits( 'stripe', limit => 50 )->available,                  1, 'the limit of the server counts';
        is $other->try_lock( 'order:8', permits => { stripe => [ 2, LIMIT ] } ), undef;
        ok !$locks->is_locked( [qw(order:8 stripe)] ), 'a pool is no lock';
        ok $other->try_lock( [], read => 'catalog', permits => { stripe => [ 1, LIMIT ] } );
    }
    is $stripe->available, LIMIT;
};

subtest 'permits' => sub {
    my $stripe = $locks->permits( 'stripe', limit => LIMIT, n => 2, ttl => GENEROUS );
    is_deeply [ $stripe->pool, $stripe->limit, $stripe->n ], [ 'stripe', LIMIT, 2 ];
    is $stripe->synchronized( sub { $stripe->available } ), 1;
    {
        my $held = $stripe->lock;
        is_deeply [ $held->names ], [];
        is $stripe->try_lock( owner => 7 ), undef;
        is $stripe->available,              1;
    }
    ok $stripe->try_lock->release;
    is $stripe->available, LIMIT;
};

subtest 'what no pool can have' => sub {
    my $fresh   = locks();
    my $unknown = died_of { $fresh->lock( [], permits => { s => 1 } ) };
    isa_ok $unknown, 'Pinyon::Error::InvalidName';
    like $unknown->message, qr/the limit of the permits "s" is not known here: give it/;
    for my $wrong ( [ 1, 0 ], [ 0, 3 ], [ -1, 3 ], [ 4, 3 ], [ 1, 2**40 ] ) {
        my ( $count, $limit ) = @{$wrong};
        for my $died (
            died_of { $fresh->permits( 's', n => $count, limit => $limit ) },
            died_of { $fresh->try_lock( [], permits => { s => $wrong } ) }
            )
        {
            isa_ok $died, 'Pinyon::Error::InvalidName';
            like $died->message, qr/give 1 to /;
        }
    }
    for my $wrong ( [ 1, 2, 3 ], 'some', undef, {} ) {
        isa_ok died_of { $fresh->lock( [], permits => { s => $wrong } ) }, 'Pinyon::Error::UnsupportedType';
    }
    isa_ok died_of { $fresh->lock( [], permits => ['s'] ) }, 'Pinyon::Error::UnsupportedType';
    isa_ok died_of { $fresh->lock( [], read => [ {} ] ) },   'Pinyon::Error::UnsupportedType';
    isa_ok died_of { $fresh->permits('s') },                 'Pinyon::Error::Usage';
    isa_ok died_of { $fresh->lock( [], read => [] ) },       'Pinyon::Error::InvalidName';
    isa_ok died_of { $fresh->lock( 'a', reads => 'b' ) },    'Pinyon::Error::Usage';
};

subtest 'names in all modes have one hash tag' => sub {
    my $tagged = locks( hash_tags => 'names' );
    my $lock   = $tagged->lock( '{7}order', read => '{7}catalog', permits => { '{7}stripe' => [ 1, 2 ] } );
    is $tagged->permits( '{7}stripe', limit => 2 )->available, 1;
    isa_ok died_of { $tagged->lock( '{7}a', read => '{8}catalog' ) }, 'Pinyon::Error::InvalidName';
};

subtest 'no more permits than there are among threads' => sub {
    plan skip_all => 'this perl has no threads' if !$Config{useithreads};
    require threads::shared;
    my $count_inside = 0;
    my $inside       = threads::shared::share( \$count_inside );
    my @all          = map {
        my $count = 1 + $_ % 2;
        threads->create(
            sub {
                my $most = 0;
                for ( 1 .. 20 ) {
                    my $lock = $locks->lock( [], permits => { stripe => [ $count, LIMIT ] }, timeout => GENEROUS );
                    { lock ${$inside}; ${$inside} += $count; $most = ${$inside} if ${$inside} > $most; }
                    { lock ${$inside}; ${$inside} -= $count; }
                }
                return $most;
            }
        );
    } 1 .. 6;
    my ($most) = sort { $b <=> $a } map { $_->join } @all;
    cmp_ok $most, '>=', 2;
    cmp_ok $most, '<=', LIMIT;
    is $locks->permits( 'stripe', limit => LIMIT )->available, LIMIT;
};

for my $way ( map { "Ways::$_"->new } qw(Coro AnyEvent Future) ) {
    subtest ref $way => sub {
        my $missing = $way->missing;
        plan skip_all => "$missing does not load" if $missing;
        my @settings = ( "unix://" . redis()->{address}, namespace => "sharing$$", timeout => GENEROUS );
        my ( $mine, $others ) = map { $way->locks(@settings) } 1 .. 2;
        my ( $inside, $most ) = ( 0, 0 );
        my $use = sub {
            my ( $client, $count ) = @_;
            my $permits = $client->permits( 'stripe', limit => LIMIT, n => $count, owner => Pinyon::_new_owner() );
            for ( 1 .. 10 ) {
                my $lock = $way->got( scalar $permits->lock );
                $inside += $count;
                $most = $inside if $inside > $most;
                $way->pause(0.001);
                $inside -= $count;
                $way->got( scalar $lock->release );
            }
            return 'done';
        };
        my @done = $way->together(
            map {
                my $number = $_;
                sub { $use->( $number % 2 ? $mine : $others, 1 + $number % 2 ) }
            } 1 .. 6
        );
        is scalar( grep { $_ eq 'done' } @done ), 6;
        cmp_ok $most, '>=', 2;
        cmp_ok $most, '<=', LIMIT;

        my $reads = $way->got( scalar $mine->read('catalog') );
        my $too   = $way->got( scalar $others->read( 'catalog', permits => { stripe => 2 } ) );
        is_deeply [ $too->names ], ['catalog'];
        is scalar @{ $way->got( scalar $mine->status('catalog') )->{readers} }, 2;
        my $stripe = $mine->permits( 'stripe', limit => LIMIT );
        is $way->got( scalar $stripe->available ),                                            1;
        is $way->got( scalar $others->try_lock( 'catalog', owner => Pinyon::_new_owner() ) ), undef;
        is $way->got( scalar $stripe->synchronized( sub { 'value' } ) ),                      'value';
        is $way->got( scalar $_->release ),                                                   1 for $reads, $too;
    };
}

done_testing;
