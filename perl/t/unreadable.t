use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(cache eventually have_server memcached GENEROUS);

plan skip_all => 'memcached is not installed' if !have_server('memcached');

my $address = memcached()->{address};
my @ways    = ( [ waiting => sub { Pinyon::Cache->new( servers => [$address], @_ ) } ] );
if ( eval { require EV; require Coro; require Coro::AnyEvent; require Pinyon::Coro; 1 } ) {
    push @ways, [ Coro => sub { Pinyon::Coro::Cache->new( servers => [$address], @_ ) } ];
}

# A serializer whose loading calls a sub.
package Calling {

    sub new {
        return bless { call => sub { $_[0] } }, $_[0];
    }
    sub dump { return ( $_[1], 7 ) }

    sub load {
        my ( $self, $bytes, $flags ) = @_;
        die "no value of ours has the flags $flags\n" if $flags != 7;
        return $self->{call}->($bytes);
    }
}

# Reads another value when it is thawed.
package Nested {
    our $client;
    sub new             { return bless {}, $_[0] }
    sub STORABLE_freeze { return q{.} }
    sub STORABLE_thaw   { $_[0]{inner} = $client->get('inner'); return }
}

# Leaves by a word that belongs to a loop.
package Leaving {
    our @ISA = ('Calling');

    sub load {
        my ( $self, $bytes, $flags ) = @_;
        no warnings 'exiting';    ## no critic (ProhibitNoWarnings)
        last if $bytes eq 'leave';
        return $bytes;
    }
}

package main;

for (@ways) {
    my ( $way, $connect ) = @{$_};
    my $made = sub { $connect->( timeout => GENEROUS, connect_timeout => GENEROUS, namespace => "$way:", @_ ) };
    my @keys = map { "key$_" } 1 .. 50;

    subtest "$way: loading may use the client" => sub {
        my $calling = Calling->new;
        my $cache   = $made->( serializer => $calling, max_connections => 1 );
        $cache->set( $_, 'value' ) for @keys;
        $calling->{call} = sub { [ $_[0], $cache->exists('key1') ? 1 : 0 ] };
        is_deeply $cache->get('key1'), [ 'value', 1 ];
        my $found = $cache->get_multi(@keys);
        is_deeply [ map { $found->{$_} } @keys ],                          [ map { [ 'value', 1 ] } @keys ];
        is_deeply $cache->get_or_set( key1 => sub { 'made' }, ttl => 60 ), [ 'value', 1 ];
    };

    subtest "$way: thawing may use the client" => sub {
        my $cache = $Nested::client = $made->( serializer => 'storable', max_connections => 1 );
        $cache->set( inner => 'value' );
        $cache->set( $_, Nested->new ) for @keys;
        my $found = $cache->get_multi(@keys);
        is_deeply [ map { $found->{$_}{inner} } @keys ], [ ('value') x @keys ];
    };

    subtest "$way: loading that leaves by last fails, and leaves no frame of C" => sub {
        my $cache = $made->( serializer => Leaving->new );
        $cache->set( $_ => $_ ) for qw(leave stay);
        my $found;
        for ( 1 .. 2 ) {
            $found = $cache->get_multi( [qw(leave stay)], failed => \my %failed );
            is_deeply $found, { stay => 'stay' };
            like $failed{leave}, qr/^Can't "last" outside a loop block/;
            ok !eval { $cache->get('leave'); 1 };
            like $@, qr/^Can't "last" outside a loop block/;
        }
        is $cache->get('stay'), 'stay';
    };

    my @unreadable = (
        [ 'by another serializer',   [ serializer => 'storable' ], \[1], [] ],
        [ 'by a serializer in Perl', [], 'not ours', [ serializer => Calling->new ] ],
    );
    for (@unreadable) {
        my ( $what, $writing, $value, $reading ) = @{$_};
        my $spoil = sub { $made->( @{$writing} )->set( $_, ref $value ? ${$value} : $value ) for @_ };

        subtest "$way: get_or_set makes anew what was written $what" => sub {
            $spoil->('key');
            my ( $cache, $count ) = ( $made->( @{$reading} ), 0 );
            for ( 1 .. 2 ) {
                is $cache->get_or_set( key => sub { $count++; 'new' }, ttl => 60 ), 'new';
            }
            is $count,                             1;
            is $made->( @{$reading} )->get('key'), 'new';
        };

        subtest "$way: get_or_set_multi makes anew what was written $what" => sub {
            $spoil->(qw(key other));
            my ( $cache, @asked ) = ( $made->( @{$reading} ) );
            $cache->set( there => 'there' );
            for ( 1 .. 2 ) {
                my $make = sub {
                    push @asked, [@_];
                    return { map { $_ => "new $_" } @_ };
                };
                my $found = $cache->get_or_set_multi( [qw(key there other)], $make, ttl => 60 );
                is_deeply $found, { key => 'new key', there => 'there', other => 'new other' };
            }
            is_deeply \@asked, [ [qw(key other)] ];
        };

        subtest "$way: a lease is won by one caller where the value was written $what" => sub {
            $spoil->('key');
            my $won = $made->( @{$reading} )->lease('key');
            is_deeply [ $won->state, $won->has_value ? 1 : 0 ], [ 'won', 0 ];
            is $made->( @{$reading} )->lease('key')->state, 'filling';
            ok $won->fulfil( 'new', 60 );
            is $made->( @{$reading} )->get('key'), 'new';
        };

        subtest "$way: get_multi names each key whose value was written $what" => sub {
            $spoil->(qw(one two));
            for my $mode (qw(raise miss)) {
                my $cache = $made->( @{$reading} )->using( on_unreadable => $mode );
                $cache->set( other => 'readable' );
                for my $method (qw(get_multi gets_multi)) {
                    my $found = $cache->$method( [qw(one other two none)], failed => \my %failed );
                    is_deeply [ keys %{$found} ], ['other'], "$method, $mode";
                    is_deeply [ sort keys %failed ], $mode eq 'raise' ? [qw(one two)] : [];
                }
            }
            my $cache = $made->( @{$reading} );
            local $@ = 'kept';
            $cache->get_multi( [qw(one two)], failed => \my %failed );
            is $@, 'kept', 'what was died of before is not touched';
            ok !eval { $cache->get_multi(qw(one other two)); 1 }, 'without failed it dies';
            is_deeply $@->partial, { other => 'readable' }, 'and has what was read' if ref $@;
        };

        subtest "$way: it can count as missing where it was written $what" => sub {
            $spoil->('key');
            my @events;
            my $cache  = $made->( @{$reading}, on_event => sub { push @events, $_[0] } );
            my $misses = $cache->using( on_unreadable => 'miss' );
            $cache->set( other => 'readable' );
            for ( 1 .. 2 ) {
                is $misses->get('key'),  undef;
                is $misses->gets('key'), undef;
                is_deeply $misses->get_multi(qw(key other)), { other => 'readable' };
            }
            ok !eval { $cache->get('key'); 1 }, 'otherwise it dies';
        };
    }
}

done_testing;
