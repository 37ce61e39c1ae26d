package Interrupting;

# Callers of one client that are interrupted, what they may read, and what they leave behind.

use 5.016;
use strict;
use warnings;

use List::Util  qw(reduce sum0);
use Time::HiRes ();

use Recorder qw(content);

# Seconds that are no reason for a caller to end.
use constant GENEROUS => 60;

# Callers at a time.
use constant TOGETHER => 32;

# Bytes of values, from empty ones to some that arrive in many parts.
my @sizes = ( 0, 10, 1000, 100_000 );

# How many are stopped while Perl's own values are counted, and how often they are counted. The least of the counts is what
# stops leave. Coro keeps a pad of each sub for as many coroutines as ever waited in it at a time. A count in which more
# of them do than before has these pads too.
use constant { COUNTED => 500, COUNTS => 3 };

sub new {
    my ( $class, $servers, $stops ) = @_;
    my %value = map { ( "key:$_" => "$_ " . 'x' x $sizes[ $_ % @sizes ] ) } 0 .. 31;
    my $self  = bless {
        servers => $servers,
        stops   => $stops,
        value   => \%value,
        keys    => [ sort keys %value ],
        counts  => {},
        wrong   => [],
    }, $class;
    $self->load;
    return $self;
}

# Does half of the work, and then all of it. Returns what was found, and what was left behind.
sub measured {
    my ($self) = @_;
    my @left;
    for my $share ( 0.5, 1 ) {
        $self->{cache} = $self->client;
        $self->waiting->set_multi( map { [ $_ => $self->{value}{$_} ] } @{ $self->{keys} } );
        $self->rounds( $self->{stops} * $share );
        $self->check_all;
        $self->close;
        push @left, left();
    }
    return {
        findings => [ @{ $self->{wrong} }[ 0 .. ( @{ $self->{wrong} } > 20 ? 19 : $#{ $self->{wrong} } ) ] ],
        counts   => $self->{counts},
        before   => $left[0],
        after    => $left[1],
        leaked   => $self->leaked,
    };
}

sub rounds {
    my ( $self, $stops ) = @_;
    $self->one_round while grep { ( $self->{counts}{$_} || 0 ) < $stops } $self->kinds;
    return;
}

# How many values of Perl's are left by interruptions, and by how many; undef where nothing can count them, and under
# memcheck, where it would take too long.
sub leaked {
    my ($self) = @_;
    return if $ENV{PINYON_MEMCHECK} || !eval { require Test::LeakTrace; 1 };
    $self->{cache}      = $self->client;
    $self->{is_counted} = 1;
    my $begun = $self->stopped;
    my $work  = sub { $self->one_round until $self->stopped >= $begun + COUNTED };
    $work->();
    my @counts;

    for ( 1 .. COUNTS ) {
        $begun = $self->stopped;
        push @counts, { values => Test::LeakTrace::leaked_count($work), stops => $self->stopped - $begun };
    }
    $self->close;
    return reduce { $a->{values} <= $b->{values} ? $a : $b } @counts;
}

sub stopped {
    my ($self) = @_;
    return sum0( map { $_ // 0 } @{ $self->{counts} }{ $self->kinds } );
}

sub settings {
    my ($self) = @_;
    return ( servers => $self->{servers}, timeout => GENEROUS, connect_timeout => GENEROUS );
}

# A client that waits, beside the one that is interrupted.
sub waiting {
    my ($self) = @_;
    return $self->{waiting} ||= Pinyon::Cache->new( $self->settings );
}

sub close {    ## no critic (ProhibitBuiltinHomonyms)
    my ($self) = @_;
    delete $self->{waiting};
    delete $self->{cache};
    return;
}

sub count {
    my ( $self, $kind ) = @_;
    $self->{counts}{$kind}++;
    return;
}

sub is_wrong {
    my ( $self, $what ) = @_;
    push @{ $self->{wrong} }, $what;
    return;
}

sub any_key { my ($self) = @_; return $self->{keys}[ rand @{ $self->{keys} } ] }

sub check {
    my ( $self, $key, $found ) = @_;
    return $self->count('right') if defined $found && $found eq $self->{value}{$key};
    return $self->is_wrong( "$key is " . ( defined $found ? substr $found, 0, 60 : 'undef' ) );
}

sub check_many {
    my ( $self, $found ) = @_;
    $self->check( $_, $found->{$_} ) for @{ $self->{keys} };
    return;
}

sub check_all {
    my ($self) = @_;
    $self->check( $_, scalar $self->waiting->get($_) ) for @{ $self->{keys} };
    return $self->check_many( $self->waiting->get_multi( @{ $self->{keys} } ) );
}

# Every way in which a client that waits, or whose coroutines do, reads and writes.
sub use_all {
    my ( $self, $cache ) = @_;
    my $key = $self->any_key;
    $self->check( $key, scalar $cache->get($key) );
    $cache->set( $key => $self->{value}{$key} );
    $self->check_many( $cache->get_multi( @{ $self->{keys} } ) );
    $cache->quiet( sub { $_[0]->set( $_ => $self->{value}{$_} ) for @{ $self->{keys} }[ 0 .. 9 ] } );
    $cache->delete('made') if rand() < 0.2;
    my $made = $cache->get_or_set( made => sub { 'made' }, ttl => 60, lease => 1 );
    $self->is_wrong("what is made is $made") if $made ne 'made';
    return;
}

# Open descriptors and bytes of memory.
sub left {
    opendir my $folder, '/proc/self/fd' or die "/proc/self/fd: $!";
    my $descriptors = grep { !/\A[.]/ } readdir $folder;
    closedir $folder;
    my ($memory) = content('/proc/self/status') =~ /^VmRSS:\s+(\d+)/m;
    return { descriptors => $descriptors, memory => $memory * 1024 };
}

package Interrupting::Signals;

our @ISA = ('Interrupting');    ## no critic (ProhibitExplicitISA)

sub load  { require Pinyon; return }
sub kinds { return 'died' }

sub client {
    my ($self) = @_;
    return Pinyon::Cache->new( $self->settings );
}

sub one_round {
    my ($self) = @_;
    my $cache = $self->{cache};
    local $SIG{ALRM} = sub {
        if ( rand() < 0.3 ) {
            my $key = $self->any_key;
            $self->check( $key, scalar $cache->get($key) );
            $self->check_many( $cache->get_multi( @{ $self->{keys} } ) ) if rand() < 0.2;
            $self->count('nested');
        }
        if ( rand() < 0.2 ) {
            $self->count('returned');
            Time::HiRes::ualarm( 1 + int rand 400 );
            return;
        }
        die "interrupted\n";
    };
    for ( 1 .. 20 ) {
        next if eval { $self->_interrupted($cache); 1 };
        $@ eq "interrupted\n" ? $self->count('died') : $self->is_wrong($@);
    }
    return;
}

# Perl does not let a handler die out of the end of an object. So no alarm is the last.
sub _interrupted {
    my ( $self, $cache ) = @_;
    eval {
        while (1) {
            Time::HiRes::ualarm( 1 + int rand 800 );
            $self->use_all($cache) for 1 .. 5;
        }
    };
    my $error = $@;
    Time::HiRes::ualarm(0);
    die $error;
}

package Interrupting::Coro;

our @ISA = ('Interrupting');    ## no critic (ProhibitExplicitISA)

sub load {
    require EV;
    require Pinyon::Coro;
    require FarStacks if $ENV{PINYON_MEMCHECK};
    return;
}

sub kinds {
    my ($self) = @_;

    # Coro leaves something behind of each coroutine that is cancelled, whatever it waits for.
    return $self->{is_counted} ? 'thrown' : qw(thrown cancelled);
}

sub client {
    my ($self) = @_;
    return Pinyon::Coro::Cache->new( $self->settings );
}

sub one_round {
    my ($self) = @_;
    my @coroutines = map { $self->_coroutine( $_ % 4 ) } 1 .. Interrupting::TOGETHER;
    local $SIG{ALRM} = sub {
        my $key = $self->any_key;
        $self->check( $key, scalar $self->waiting->get($key) );
        $self->count('nested');
    };
    Time::HiRes::ualarm( 1 + int rand 2000 );
    Coro::cede() for 1 .. rand 4;
    Coro::AnyEvent::sleep( rand 0.003 );
    for my $number ( 1 .. @coroutines ) {
        my $coroutine = $coroutines[ $number - 1 ];
        if ( $number % 4 == 0 && !$self->{is_counted} ) {
            $coroutine->cancel;
            $self->count('cancelled');
        }
        elsif ( $number % 4 <= 1 ) {
            $coroutine->throw("thrown\n");
        }
        Coro::cede() if rand() < 0.3;
    }
    $_->join for @coroutines;
    Time::HiRes::ualarm(0);
    return;
}

# 0: is cancelled, 1: is thrown at.
sub _coroutine {
    my ( $self, $kind ) = @_;
    my $code = $kind == 0 && !$self->{is_counted} ? \&_read_on : \&_use_all;
    return Coro::async( $code, $self, $kind );
}

# Until it is cancelled. Coro crashes where a coroutine is cancelled that waits inside several subs, and keeps what a closure
# has captured.
sub _read_on {
    my ($self) = @_;
    while (1) {
        my $key   = $self->any_key;
        my $found = $self->{cache}->get($key);
        $self->check( $key, $found );
        $self->{cache}->set( $key => $self->{value}{$key} );
    }
    return;
}

sub _use_all {
    my ( $self, $kind ) = @_;
    my $left = $kind <= 1 ? -1 : 2;
    return if eval { $self->use_all( $self->{cache} ) while $left--; 1 };
    $@ eq "thrown\n" ? $self->count('thrown') : $self->is_wrong($@);
    return;
}

package Interrupting::Anyevent;

our @ISA = ('Interrupting');    ## no critic (ProhibitExplicitISA)

sub load {
    require EV;
    require Pinyon::AnyEvent;
    return;
}

sub kinds { return qw(cancelled died) }

sub client {
    my ($self) = @_;
    return Pinyon::AnyEvent::Cache->new( $self->settings );
}

sub one_round {
    my ($self) = @_;
    my $all = AE::cv();
    no warnings 'once';    ## no critic (ProhibitNoWarnings)
    local $EV::DIED = sub { $@ eq "died\n" ? $self->count('died') : $self->is_wrong($@) };
    $all->begin;
    my @operations = map { $self->_operation( $_ % 4, $all ) } 1 .. Interrupting::TOGETHER;
    my $stop       = sub {
        for my $operation (@operations) {
            my ( $begun, $state ) = @{$operation};
            next if ${$state} ne 'cancels';
            ${$state} = 'cancelled';
            $begun->cancel;
            $self->count('cancelled');
            $all->end;
        }
        $all->end;
    };
    my $later = rand() < 0.2 ? undef : AE::timer( rand 0.002, 0, $stop );
    $stop->() if !$later;
    $all->recv;
    return;
}

# 0: is cancelled, 1: its callback dies.
sub _operation {
    my ( $self, $kind, $all ) = @_;
    my ( $cache, $keys ) = @{$self}{qw(cache keys)};
    my $state = $kind == 0 ? 'cancels' : 'waits';
    my $key   = $self->any_key;
    my $told  = sub {
        my ( $found, $error ) = @_;
        return $self->is_wrong("a callback of an operation that was cancelled is called") if $state eq 'cancelled';
        $state = 'told';
        $all->end;
        return $self->is_wrong($error) if defined $error;
        ref $found ? $self->check_many($found) : $self->check( $key, $found );
        die "died\n" if $kind == 1;
    };
    $all->begin;
    my $begun =
        rand() < 0.3
        ? $cache->get_multi( @{$keys}, cb => $told )
        : $cache->get( $key, cb => $told );
    return [ $begun, \$state ];
}

1;
