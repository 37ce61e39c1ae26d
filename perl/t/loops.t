use 5.016;
use strict;
use warnings;

use File::Temp ();
use FindBin    qw($Bin);
use lib "$Bin/lib";
use Test::More;
use Time::HiRes ();

use Pinyon;
use Servers qw(cache eventually have_server in_child memcached redis GENEROUS);

plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server);
plan skip_all => "$_ does not load"    for grep { !eval "require $_" } qw(EV Coro Coro::AnyEvent);

require Pinyon::AnyEvent;
require Pinyon::Coro;

my @generous = ( timeout => GENEROUS, connect_timeout => GENEROUS );
my $address  = memcached()->{address};
my $url      = 'unix://' . redis()->{address};

sub coro_cache     { return Pinyon::Coro::Cache->new( servers => [$address], @generous, @_ ) }
sub anyevent_cache { return Pinyon::AnyEvent::Cache->new( servers => [$address], @generous, @_ ) }

subtest 'callbacks and condvars' => sub {
    my $cache = anyevent_cache();
    my $done  = AE::cv();
    my @got;
    $cache->set(
        told => 'value',
        cb   => sub {
            push @got, $_[0];
            $cache->get( told => cb => sub { push @got, @_; $done->send } );
        }
    );
    $done->recv;
    is_deeply \@got, [ 1, 'value', undef ], 'value and error';
    is $cache->get('told')->recv,    'value', 'a condvar';
    is $cache->get('missing')->recv, undef,   'a miss';
    ok !eval { $cache->get('with space')->recv; 1 }, 'a condvar fails';
    isa_ok $@, 'Pinyon::Error::InvalidKey';
    is $@->file, __FILE__, 'the error is where it was called';
    is_deeply $cache->get_multi(qw(told missing))->recv, { told => 'value' }, 'many';
    is $cache->get_or_set( made => sub { my $later = AE::cv(); $later->send('made'); $later } )->recv, 'made',
        'made by a condvar';
    my @counted;
    my $all = AE::cv();

    for my $number ( 1 .. 50 ) {
        $all->begin;
        $cache->get_or_set( once => sub { push @counted, $number; $number }, cb => sub { $all->end } );
    }
    $all->recv;
    is scalar @counted, 1, 'one of fifty makes the value';
};

sub stale {
    my ($key) = @_;
    my $plain = cache();
    $plain->set( $key => 'old' );
    $plain->delete( $key, stale => 1000 );
    return $plain;
}

my @behind = ( ttl => 1000, stale => 1000 );

subtest 'a coroutine leaves its maker behind' => sub {
    my $cache = coro_cache();
    stale('behind');
    my $gate = Coro::Semaphore->new(0);
    is $cache->get_or_set( behind => sub { $gate->down; 'new' }, @behind, soft_timeout => 0.01 ), 'old', 'it has the old value';
    is $cache->get_or_set( behind => sub { 'another' }, @behind ), 'old', 'so has the next one';
    $gate->up;
    ok eventually { Coro::AnyEvent::sleep(0.001); $cache->get('behind') eq 'new' }, 'the maker goes on';

    stale('thrown');
    my $caller = Coro::async(
        sub {
            eval {
                $cache->get_or_set( thrown => sub { $gate->down; 'late' }, @behind, soft_timeout => GENEROUS );
            };
            return $@;
        }
    );
    eventually { Coro::AnyEvent::sleep(0.001); $gate->waiters };
    $caller->throw("enough\n");
    is $caller->join, "enough\n";
    is $cache->get_or_set( thrown => sub { 'new' }, @behind, wait => 0 ), 'new', 'a caller that is thrown at gives it back';
    $gate->up;
};

subtest 'a client that is closed gives the leases of those behind back' => sub {
    for my $make ( \&coro_cache, \&anyevent_cache ) {
        my $cache   = $make->();
        my $plain   = stale('closed');
        my $promise = AE::cv();
        my $is_coro = $cache->isa('Pinyon::Coro::Cache');
        my $got     = $cache->get_or_set(
            closed => sub { $is_coro ? $promise->recv : $promise },
            @behind, soft_timeout => 0.01
        );
        is $is_coro ? $got : $got->recv, 'old', 'the old value';
        ok $plain->lease('closed')->is_stale, 'it is being made';
        $cache->close;
        my $lease;
        ok eventually { $lease = $plain->lease('closed'); $lease->is_won }, 'and no more';
        $promise->send('dropped');
        Coro::AnyEvent::sleep(0.01);
        ok $plain->lease('closed')->is_stale, 'its value is dropped';
    }
};

subtest 'at the end of a program too' => sub {
    my $plain = stale('ended');
    my ($said) = Servers::program( <<'CODE', $address );
use EV; use Coro; use Coro::AnyEvent; use Pinyon::Coro;
our $cache = Pinyon::Coro::Cache->new( servers => [ $ARGV[0] ] );
print $cache->get_or_set( ended => sub { Coro::AnyEvent::sleep(1000) }, ttl => 1000, stale => 1000, soft_timeout => 0.01 );
CODE
    like $said, qr/old/, 'the old value';
    ok eventually { $plain->lease('ended')->is_won }, 'the lease is back';
};

subtest 'a condvar may come too late' => sub {
    my $cache   = anyevent_cache();
    my $plain   = stale('promised');
    my $promise = AE::cv();
    is $cache->get_or_set( promised => sub { $promise }, @behind, soft_timeout => 0.01 )->recv, 'old', 'the old value';
    $promise->send('new');
    ok eventually { Coro::AnyEvent::sleep(0.001); $plain->get('promised') eq 'new' }, 'then the new one';
    stale('first');
    my @order;
    my $done  = AE::cv();
    my $asked = $cache->get_or_set(
        first => sub { push @order, 'made'; $done->send; 'new' },
        @behind,
        refresh => 'behind',
        cb      => sub { push @order, $_[0] }
    );
    $done->recv;
    is_deeply \@order, [ 'old', 'made' ], 'the caller is told first';
    ok eventually { Coro::AnyEvent::sleep(0.001); $plain->get('first') eq 'new' };
};

subtest 'a callback that dies does not keep others from their replies' => sub {
    my $cache = anyevent_cache();
    my $all   = AE::cv();
    my @said;
    no warnings 'once';
    local $EV::DIED = sub { push @said, $@ };
    for my $number ( 1 .. 10 ) {
        $all->begin;
        $cache->get( number => cb => sub { $all->end; die "in the $number.\n" if $number == 5 } );
    }
    $all->recv;
    is_deeply \@said, ["in the 5.\n"], 'the loop is told';
};

subtest 'coroutines' => sub {
    my $cache  = coro_cache();
    my $wrong  = 0;
    my @chains = map {
        my $chain = $_;
        Coro::async(
            sub {
                for my $round ( 1 .. 50 ) {
                    $cache->set( "chain:$chain" => "$chain in $round" );
                    $wrong++ if $cache->get("chain:$chain") ne "$chain in $round";
                }
                return $chain;
            }
        )
    } 1 .. 100;
    is scalar( grep { $_->join } @chains ), 100, 'all chains end';
    is $wrong,                              0,   'with their own values';
    is_deeply [ $cache->get('missing') ], [], 'a miss in list context';
    is $cache->get_or_set( deep => sub { $cache->get('chain:7') } ), '7 in 50', 'a maker may wait';
    ok !eval { $cache->get('with space'); 1 }, 'an error is thrown';
    is $@->line, __LINE__ - 1, 'where it was called';
    $cache->set( $_ => "value of $_" ) for 1 .. 3;
    my @values = map { $_->join } map {
        my $first = $_;
        Coro::async(
            sub {
                my @references;
                push @references, \scalar $cache->get($_) for $first, 1, 'missing', 2;
                return join q{, }, map { ${$_} // 'none' } @references;
            }
        )
    } 1 .. 3;
    is_deeply \@values, [ map { "value of $_, value of 1, none, value of 2" } 1 .. 3 ], 'values of one call are apart';
    my $semaphore = Coro::Semaphore->new(100);
    my @many      = map {
        Coro::async( sub { my $guard = $semaphore->guard; $cache->get('chain:1') } )
    } 1 .. 2000;
    is scalar( grep { $_->join eq '1 in 50' } @many ), 2000, 'behind a semaphore';
};

subtest 'coroutines that are thrown at and cancelled in the middle' => sub {
    my $cache = coro_cache();
    $cache->set( "key:$_" => "value $_" ) for 0 .. 19;
    my ( $wrong, $thrown, $cancelled, $got ) = (0) x 4;
    my $alive   = 0;
    my $batches = 150;
    for my $batch ( 1 .. $batches ) {
        my @all = map {
            my $number = $_;
            Coro::async(
                sub {
                    my $scope = Scope->new( \$alive );
                    while (1) {
                        my $value = eval { $cache->get("key:$number") };
                        if ( !defined $value ) {
                            $wrong++ if $@ ne "thrown\n";
                            return;
                        }
                        $wrong++ if $value ne "value $number";
                        $got++;
                    }
                }
            )
        } 0 .. 19;
        Coro::cede() for 1 .. rand 4;
        Coro::AnyEvent::sleep( rand 0.002 );
        my $before = $got;
        eventually { Coro::AnyEvent::sleep(0.001); $got > $before } if $batch % 10 == 0;
        for my $coroutine (@all) {
            if   ( rand() < 0.5 ) { $coroutine->throw("thrown\n"); $thrown++ }
            else                  { $coroutine->cancel;            $cancelled++ }
            Coro::cede() if rand() < 0.3;
        }
        $_->join for @all;
    }
    is $wrong, 0, "no wrong value in $got, with $thrown thrown and $cancelled cancelled";
    cmp_ok $got, '>=', $batches / 10, 'values were got';
    is $alive,               0,         'all scopes are left';
    is $cache->get('key:3'), 'value 3', 'the client goes on';
};

{

    package Scope;
    sub new     { my ( $class, $count ) = @_; $$count++; return bless { count => $count }, $class }
    sub DESTROY { ${ $_[0]{count} }-- }
}

subtest 'a dead server, and one that does not answer' => sub {
    my $dead = coro_cache( servers => ['127.0.0.1:1'], connect_timeout => 1 );
    my @all  = map {
        Coro::async(
            sub {
                eval { $dead->get('key') };
                ref $@;
            }
        )
    } 1 .. 20;
    is_deeply [ grep { !/\APinyon::Error::(?:Connect|ServerDown)\z/ } map { $_->join } @all ], [], 'all are told';
    my $silent = Servers::silent_server();
    my $waits  = coro_cache( servers => [ $silent->{address} ], timeout => 0.3 );
    ok !eval { $waits->get('key'); 1 }, 'nothing waits for ever';
    isa_ok $@, 'Pinyon::Error::Timeout';
    my $closed  = anyevent_cache( servers => [ $silent->{address} ] );
    my $condvar = $closed->get('key');
    $closed->close;
    ok !eval { $condvar->recv; 1 }, 'close ends what waits';
    isa_ok $@, 'Pinyon::Error';
};

subtest 'a fork while the loop runs' => sub {
    my $cache = coro_cache();
    $cache->set( forked => 'value' );
    my $silent  = Servers::silent_server();
    my $waiting = anyevent_cache( servers => [ $silent->{address} ] );
    my $condvar = $waiting->get('key');
    Coro::AnyEvent::sleep(0.05);
    my $child = in_child {
        my $value = $cache->get('forked');
        eval {
            $waiting->set( key => 1, cb => sub { } );
        };
        eval { $condvar->recv };
        return "$value " . ref $@;
    };
    is $child, 'value Pinyon::Error::Closed', 'a child has connections of its own, and the reply stays its parent\'s';
    is $cache->get('forked'), 'value',        'the parent goes on';
    $waiting->close;
};

# A child that shares its parent's set of descriptors takes a descriptor out of it that it no longer watches itself.
subtest 'a child watches nothing for its parent' => sub {
    my $cache = anyevent_cache();
    $cache->set( forked => 'value' )->recv;
    my %clients = ( 'the parent\'s client' => sub { return $cache }, 'one of its own' => \&anyevent_cache );
    for my $name ( sort keys %clients ) {
        pipe my $reader, my $writer or die "pipe: $!";
        my $told    = AE::cv();
        my $watcher = AE::io( $reader, 0, sub { $told->send('told') } );
        $cache->get('forked')->recv;
        my $child = in_child {
            undef $watcher;
            my $value = $clients{$name}->()->get('forked')->recv;
            syswrite $writer, 'a byte';
            Coro::AnyEvent::sleep(0.05);
            return $value;
        };
        my $too_late = AE::timer( GENEROUS, 0, sub { $told->send('not told') } );
        is $child,      'value', "with $name";
        is $told->recv, 'told',  'the parent is told of its own descriptors';
    }
};

subtest 'two clients, and a view, in one process' => sub {
    my ( $first, $second ) = ( coro_cache( namespace => 'one:' ), anyevent_cache( namespace => 'two:' ) );
    my $view = $first->using( namespace => 'three:' );
    $first->set( key => 1 );
    $second->set( key => 2 )->recv;
    $view->set( key => 3 );
    is_deeply [ $first->get('key'), $second->get('key')->recv, $view->get('key') ], [ 1, 2, 3 ], 'do not meet';
};

# A hundred coroutines that store and read texts of 100 kB; how many read what they have stored.
my $text = substr join( q{ }, 1 .. 50_000 ), 0, 100_000;

sub hundred_texts {
    my ($cache) = @_;
    my @all = map {
        my $own = "$_ $text";
        Coro::async(
            sub {
                $cache->set( "text:$_[0]" => $own );
                return 2 == grep { $cache->get("text:$_[0]") eq $own } 1 .. 2;
            },
            $_
        )
    } 1 .. 100;
    return scalar grep { $_->join } @all;
}

subtest 'large and compressed values on small stacks' => sub {
    for my $algorithm (qw(zstd gzip zlib)) {
        my $cache = coro_cache( compression => { algorithm => $algorithm, threshold => 100 } );
        is hundred_texts($cache), 100, $algorithm;
    }
};

subtest 'TLS on small stacks' => sub {
    plan skip_all => 'openssl is not installed'      if !have_server('openssl');
    plan skip_all => 'this memcached is without TLS' if `memcached --help` !~ /--enable-ssl/;
    my $folder     = File::Temp->newdir;
    my @files      = map { "$folder/$_" } qw(key.pem certificate.pem authority.pem authority.key);
    my $new        = 'openssl req -x509 -newkey rsa:2048 -nodes -days 2 -batch';
    my $server_own = '-addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE';
    system("$new -subj /CN=authority -keyout $files[3] -out $files[2] 2>/dev/null") == 0 or die 'openssl failed';
    system("$new -subj /CN=localhost $server_own -CA $files[2] -CAkey $files[3] -keyout $files[0] -out $files[1] 2>/dev/null")
        == 0
        or die 'openssl failed';
    my $server = Servers::server(
        'memcached', '-u',
        scalar getpwuid($>),
        qw(-l 127.0.0.1 -p PORT -Z -o),
        "ssl_chain_cert=$files[1],ssl_key=$files[0]"
    );
    my @settings = ( servers => [ $server->{address} ], tls => { ca => $files[2] } );
    is hundred_texts( coro_cache(@settings) ), 100, 'plain values';
    is hundred_texts( coro_cache( @settings, compression => { algorithm => 'zstd', threshold => 100 } ) ), 100,
        'compressed ones';
    my @all = map {
        my $key = "tls:$_";
        Coro::async(
            sub {
                my $cache = coro_cache(@settings);
                $cache->set( $key => 'x' x 100_000 );
                return length $cache->get($key);
            }
        )
    } 1 .. 100;
    is_deeply [ map { $_->join } @all ], [ (100_000) x 100 ], 'handshakes in coroutines';
};

done_testing;
