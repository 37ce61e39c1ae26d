package PinyonBench::Client::PinyonLocks;

# Pinyon's locks, by scripts.

use v5.36;
use Pinyon ();

# Seconds for which a worker waits for its lock.
use constant TIMEOUT => 60;

# The module to load for each model, and its class of locks.
my %CLASSES = ( perl => [qw(Pinyon::Locks Pinyon::Locks)], coro => [qw(Pinyon::Coro Pinyon::Coro::Locks)] );

sub new ( $class, $model ) {
    my ( $module, $library ) = @{$CLASSES{$model->name} // die 'no locks in ' . $model->name . "\n"};
    require( $module =~ s{::}{/}gr . '.pm' );
    return bless {model => $model, library => $library}, $class;
}

sub version ($self) {
    return join ', ', Pinyon->VERSION, $self->{model}->version;
}

sub configuration ($) {
    return 'Locks, handler script, otherwise defaults (one connection)';
}

# Returns a function that holds a lock of some names for some work.
sub connect_locks ( $self, $server, $ttl ) {
    my $locks = $self->{library}->new( "redis://$server/0", namespace => 'bench' );
    return sub ( $names, $work ) { return $locks->synchronized( $names, $work, ttl => $ttl, timeout => TIMEOUT ) };
}

1;
