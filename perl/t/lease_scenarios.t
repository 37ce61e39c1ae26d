use 5.016;
use strict;
use warnings;

use FindBin  qw($Bin);
use JSON::PP ();
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(have_server root);
use Ways    ();

plan skip_all => 'the scenarios are in the checkout' if !root();
plan skip_all => 'memcached is not installed'        if !have_server('memcached');

# Seconds by which a call may be late, on slow machines too.
use constant LATE => 60;

sub scenarios_of {
    my ($name) = @_;
    local ( @ARGV, $/ ) = root() . "/scenarios/$name.json";
    return @{ JSON::PP->new->utf8->decode(<>)->{scenarios} };
}

my @scenarios = map { scenarios_of($_) } qw(leases leases_many);
my %models    = map { $_ => "Ways::$_"->new } qw(Blocking Coro AnyEvent Future);

# The keys of each call of a maker; what clients were told; leases by hand; the errors of keys that a call takes apart.
my ( @made, @told, @leases, $failed );
my $number = 0;

my %calls = (
    get_or_set => sub {
        my ( $cache, $maker, $terms ) = @_;
        return $cache->get_or_set( key => sub { value_of($maker) }, terms_of($terms) );
    },
    refresh => sub {
        my ( $cache, $maker, $terms ) = @_;
        return $cache->cached( sub { value_of($maker) }, key => 'key', terms_of($terms) )->refresh;
    },
    get_or_set_many => sub {
        my ( $cache, $keys, $maker, $terms ) = @_;
        my $make = sub {
            called( $maker, @_ );
            return { map { $_ => ref $maker->{$_} ? made( $maker->{$_} ) : $maker->{$_} } keys %{$maker} };
        };
        return $cache->get_or_set_multi( $keys, $make, terms_of($terms), failed => $failed );
    },
    lease      => sub { $_[0]->lease( $_[1], lease => 1000 ) },
    mark_stale => sub { $_[0]->delete( $_[2] // 'key', stale => $_[1] ) },
    delete     => sub { $_[0]->delete( $_[1] // 'key' ) },
    get        => sub { $_[0]->get('key') },
    gat        => sub { $_[0]->gat( 'key', $_[1] ) },
    touch      => sub { $_[0]->touch( 'key', $_[1] ) },
    meta       => sub { $_[0]->meta( $_[1] // 'key' ) },
);

sub terms_of {
    my ($terms) = @_;
    return ( %{$terms}, $terms->{ttl} eq 'number' ? ( ttl => sub { $_[0] + 0 } ) : () );
}

sub value_of {
    my ($maker) = @_;
    called( $maker, 'key' );
    return exists $maker->{value} ? $maker->{value} : made($maker);
}

sub called {
    my ( $maker, @keys ) = @_;
    push @made, \@keys;
    die "$maker->{fails}\n" if exists $maker->{fails};
    return;
}

sub made {
    my ($maker) = @_;
    my %options = %{$maker};
    return Pinyon::Made->new( delete $options{made}, %options );
}

# What a call comes to, or the error.
sub outcome {
    my ( $way, $cache, $name, @arguments ) = @_;
    @made = ();
    my $result = eval {
        $way->wait_for( sub { $way->got( $calls{$name}->( $cache, @arguments ) ) } );
    };
    return ( $result, $@ );
}

sub told_or_counted {
    my ( $cache, $name, @arguments ) = @_;
    if ( $name eq 'kept' ) {
        my $kept = 0;
        $kept += $_->{commands}{lease}{kept} // 0 for values %{ $cache->metrics };
        return $kept;
    }
    my ( $kind, $reason ) = @arguments;
    return scalar grep { $_->{kind} eq $kind && $_->{message} =~ /\Q$reason\E\z/ } @told;
}

sub played {
    my ( $way, $cache, $step ) = @_;
    my ( $name, @arguments ) = @{ $step->{call} };
    return ( told_or_counted( $cache, $name, @arguments ), q{} ) if $name eq 'kept' || $name eq 'events';
    if ( $name eq 'ttl_is_within' ) {
        my ( $meta, $error ) = outcome( $way, $cache, 'meta', $arguments[2] );
        return ( $meta->{ttl} > $arguments[0] - LATE && $meta->{ttl} <= $arguments[1], $error );
    }
    my ( $result, $error ) = outcome( $way, $cache, $name, @arguments );
    return ( $result, $error ) if $name ne 'lease';
    push @leases, $result;
    return ( $result->state, $error );
}

sub plays {
    my ( $way, $cache, $step ) = @_;
    my $what  = JSON::PP->new->canonical->encode($step);
    my $until = time + LATE;
    my ( $result, $error );
    $failed = $step->{failing} && {};
    while (1) {
        ( $result, $error ) = played( $way, $cache, $step );
        last if !$step->{eventually} || ( $result // q{} ) eq $step->{returns} || time > $until;
        $way->pause(0.1);
    }
    if ( exists $step->{returns} ) {
        my $expected = $step->{returns};
        is $error, q{}, $what;
        JSON::PP::is_bool($expected) ? is( !!$result, !!$expected, $what ) : is_deeply( $result, $expected, $what );
    }
    elsif ( exists $step->{fails} ) {
        like $error, qr/\A\Q$step->{fails}\E\n/, $what;
    }
    else {
        my $class = 'Pinyon::Error::' . $step->{raises} =~ s/Error\z//r;
        isa_ok $error, $class, $what;
        like "$error", qr/$step->{says}/, $what;
    }
    if ( my $failing = $step->{failing} ) {
        is_deeply {
            map { $_ => ref( $failed->{$_} ) =~ s/\APinyon::Error:://r } keys %{$failed}
        }, $failing, "what fails: $what";
    }
    return if !exists $step->{makes};
    my $makes = ref $step->{makes} eq 'ARRAY' ? [ $step->{makes} ] : $step->{makes} ? [ ['key'] ] : [];
    is_deeply \@made, $makes, "what was made: $what";
    return;
}

for my $name (qw(Blocking Coro AnyEvent Future)) {
    my $way = $models{$name};
    if ( my $missing = $way->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    for my $scenario ( grep { $way->leaves_makers_behind || !$_->{behind} } @scenarios ) {
        subtest "$name: $scenario->{name}" => sub {
            my ( %clients, $namespace );
            $namespace = "$name:" . $number++ . q{:};
            @told      = ();
            @leases    = ();
            for my $step ( @{ $scenario->{steps} } ) {
                my $cache = $clients{ $step->{by} } ||= $way->cache(
                    servers         => Servers::memcached()->{address},
                    namespace       => $namespace,
                    timeout         => 30,
                    connect_timeout => 30,
                    on_event        => sub { push @told, $_[0] },
                );
                plays( $way, $cache, $step );
            }
        };
    }
}

done_testing;
