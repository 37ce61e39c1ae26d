use 5.016;
use strict;
use warnings;

use FindBin  qw($Bin);
use JSON::PP ();
use lib "$Bin/lib";
use Test::More;

use Pinyon;
use Servers qw(have_server root GENEROUS);
use Ways    ();

plan skip_all => 'the scenarios are in the checkout' if !root();
plan skip_all => 'memcached is not installed'        if !have_server('memcached');

# Who reads what of namespaces, tags and memory, on real memcacheds: those scenarios that a real server can play.
sub scenarios_of {
    my ($name) = @_;
    local ( @ARGV, $/ ) = root() . "/scenarios/$name.json";
    my $file = JSON::PP->new->utf8->decode(<>);
    for my $scenario ( @{ $file->{scenarios} } ) {
        for my $own ( values %{ $scenario->{clients} } ) {
            %{$own} = ( %{ $file->{client} }, %{ $scenario->{client} // {} }, %{$own} ) if !exists $own->{using};
        }
    }
    return grep { !$_->{simulated} } @{ $file->{scenarios} };
}

my $json      = JSON::PP->new->canonical;
my @scenarios = map { scenarios_of($_) } qw(namespaces tags near);
@scenarios = grep { $json->encode($_) !~ /"(?:tags|invalidate_tags)"/ } @scenarios if !Pinyon::Cache->can('invalidate_tags');

# The scenario under way: its server, what its namespaces begin with, its clients, the tokens that they have read, what calls
# returned, and whether the last maker was called.
my ( $way, $server, $prefix, $settings, %clients, %tokens, %kept, $makes );

my %calls = (
    get      => sub { $_[0]->get( $_[1] ) },
    gat      => sub { $_[0]->gat( @_[ 1, 2 ] ) },
    gets     => sub { $_[0]->gets( $_[1] ) },
    cas      => sub { $_[0]->cas( @_[ 1 .. 3 ] ) },
    touch    => sub { $_[0]->touch( @_[ 1, 2 ] ) },
    delete   => sub { $_[0]->delete( $_[1] ) },
    set      => sub { $_[0]->set( @_[ 1, 2 ], %{ $_[3] // {} } ) },
    add      => sub { $_[0]->add( @_[ 1, 2 ], %{ $_[3] // {} } ) },
    set_many => sub {
        my $values = $_[1];
        $_[0]->set_multi( ( map { [ $_ => $values->{$_} ] } keys %{$values} ), %{ $_[2] // {} } );
    },
    get_many        => sub { $_[0]->get_multi( @{ $_[1] } ) },
    clear_namespace => sub { $_[0]->clear_namespace },
    invalidate_tags => sub { my $cache = shift; $cache->invalidate_tags(@_) },
    flush_all       => sub { $_[0]->flush_all },
    get_or_set      => sub {
        my ( $cache, $key, $maker, $terms ) = @_;
        my $make = sub {
            play( $maker->{meanwhile} // [] );
            $makes = 1;
            return $maker->{value};
        };
        return $cache->get_or_set( $key => $make, %{$terms} );
    },
);

# What a call returned, or its error.
sub outcome {
    my ($step) = @_;
    my ( $name, @arguments ) = @{ $step->{call} };
    push @arguments, $tokens{ $step->{by} } if $name eq 'cas';
    my $result = eval {
        $way->wait_for( sub { $way->got( $calls{$name}->( $clients{ $step->{by} }, @arguments ) ) } );
    };
    return ( $result, $@ ) if $name ne 'gets';
    ( $result, $tokens{ $step->{by} } ) = @{ $result // [] };
    return ( $result, $@ );
}

# Calls that return nothing in other languages, and true in Perl.
my %nothing = map { $_ => 1 } qw(clear_namespace invalidate_tags flush_all);

# What is wrong with the outcome; nothing if it is as expected.
sub wrong {
    my ( $step, $result, $error ) = @_;
    my $found = $json->allow_nonref->allow_blessed->encode($result);
    if ( my $raises = $step->{raises} ) {
        my $class = join '::', 'Pinyon::Error', grep { $_ ne q{} } $raises =~ s/Error\z//r;
        return ref $error && $error->isa($class) ? () : "raises $error, returns $found";
    }
    return "raises $error" if $error;
    my @allowed =
          exists $step->{returns}      ? $step->{returns}
        : exists $step->{returns_kept} ? $kept{ $step->{returns_kept} }
        :                                @{ $step->{returns_one_of} // [$result] };
    $kept{ $step->{keeps} } = $result if $step->{keeps};
    return $nothing{ $step->{call}[0] } || ( grep { same( $_, $result ) } @allowed ) ? () : "returns $found";
}

sub same {
    my ( $expected, $result ) = @_;
    return defined $result && !!$result eq !!$expected if JSON::PP::is_bool($expected);
    return $json->encode( [$expected] ) eq $json->encode( [$result] );
}

# Makes the call of a step, and returns what is wrong.
sub checked {
    my ($step) = @_;
    return sub { wrong( $step, outcome($step) ) };
}

sub play {
    my ($steps) = @_;
    for my $step ( @{$steps} ) {
        my $what = $json->encode($step);
        if ( my $evicted = $step->{evict} ) {
            ok evict( %{$evicted} ), $what;
        }
        elsif ( my $together = $step->{together} ) {
            my @wrong = $way->together( map { checked($_) } @{$together} );
            is "@wrong", q{}, $what;
        }
        elsif ( $step->{servers} ) {
            $server->stop;
        }
        else {
            $makes = 0;
            my @wrong = wrong( $step, outcome($step) );
            push @wrong, "makes: $makes" if exists $step->{makes} && !!$makes ne !!$step->{makes};
            is "@wrong", q{}, $what;
        }
    }
    return;
}

# Deletes an item, which is named by what it is, by the key under which it is stored.
sub evict {
    my (%evicted) = @_;
    my $of        = $settings->{ $evicted{of} // $evicted{generation_of} };
    my $raw       = Servers::cache( servers => $server->{address} );
    my $namespace = $prefix . ( $of->{namespace} // q{} );
    return $raw->delete("$namespace!generation")     if !$evicted{of};
    $namespace .= $raw->get("$namespace!generation") if $of->{clearable};
    return $raw->delete( $namespace . ( $evicted{key} // "!tag:$evicted{tag}" ) );
}

sub connected {
    my ($own) = @_;
    my %given = %{$own};
    my $using = delete $given{using};
    $given{$_} = $given{$_} ? 1 : 0 for grep { JSON::PP::is_bool( $given{$_} ) } keys %given;
    return $clients{$using}->using(%given) if $using;
    my $namespace = $prefix . ( delete $given{namespace} // q{} );
    my %generous  = ( timeout => GENEROUS, connect_timeout => GENEROUS );
    return $way->cache( servers => $server->{address}, namespace => $namespace, %generous, %given );
}

my $number = 0;
for my $name (qw(Blocking Coro)) {
    $way = "Ways::$name"->new;
    if ( my $missing = $way->missing ) {
        diag "$name is left out: $missing does not load";
        next;
    }
    for my $scenario ( grep { $way->plays( { calls => $_->{steps} } ) } @scenarios ) {
        subtest "$name: $scenario->{name}" => sub {
            $server   = $scenario->{own_server} ? Servers::own_memcached() : Servers::memcached();
            $prefix   = "$name" . $number++ . q{:};
            $settings = $scenario->{clients};
            ( %clients, %tokens, %kept ) = ();
            for my $each ( sort { exists $settings->{$a}{using} <=> exists $settings->{$b}{using} } keys %{$settings} ) {
                $clients{$each} = connected( $settings->{$each} );
            }
            play( $scenario->{steps} );
            $server->stop if $scenario->{own_server};
        };
    }
}

done_testing;
