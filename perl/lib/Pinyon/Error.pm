package Pinyon::Error;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.001000';

use overload
    q{""}    => sub { $_[0]->message . ' at ' . $_[0]->file . ' line ' . $_[0]->line . ".\n" },
    bool     => sub {1},
    fallback => 1;

# Each class and those above it: the tree of errors that every language has.
my %above = (
    Timeout          => [q{}],
    LeaseTimeout     => ['Timeout'],
    Connect          => [q{}],
    ConnectionLost   => [q{}],
    ServerDown       => [q{}],
    Protocol         => [q{}],
    Server           => [q{}],
    Unsupported      => [q{}],
    Usage            => [q{}],
    InvalidKey       => ['Usage'],
    InvalidServers   => ['Usage'],
    InvalidName      => ['Usage'],
    ValueTooLarge    => [q{}],
    UnsupportedType  => [q{}],
    Unpicklable      => ['UnsupportedType'],
    UndecodableValue => [q{}],
    UnknownFlags     => ['UndecodableValue'],
    Closed           => [q{}],
    Batch            => [q{}],
    Lock             => [q{}],
    LockTimeout      => [ 'Lock', 'Timeout' ],
    LockLost         => ['Lock'],
    AlreadyHeld      => ['Lock'],
    Deadlock         => ['Lock'],
    MakerFailed      => [q{}],
    Internal         => [q{}],
);

for my $name ( keys %above ) {
    my @classes = map { length ? __PACKAGE__ . "::$_" : __PACKAGE__ } @{ $above{$name} };
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    @{ __PACKAGE__ . "::${name}::ISA" } = @classes;
}

sub new {
    my ( $class, %fields ) = @_;
    my ( $kind ) = $class =~ /^Pinyon::Error::(\w+)$/;
    my ( $file, $line ) = _users_place();
    return bless {
        kind => $kind // 'Error', message => 'died', sent => 'no', server => undef, command => undef, file => $file, line => $line,
        %fields,
    }, $class;
}

sub throw {
    my ( $class, $message, %fields ) = @_;
    die $class->new( message => $message, %fields );
}

# Where the user has called Pinyon.
sub _users_place {
    my $level = 0;
    while ( my ( $package, $file, $line ) = caller $level++ ) {
        return ( $file, $line ) if $package !~ /^Pinyon(?:::|$)/;
    }
    return ( '-', 0 );
}

sub message   { return $_[0]{message} }
sub kind      { return $_[0]{kind} }
sub sent      { return $_[0]{sent} }
sub server    { return $_[0]{server} }
sub command   { return $_[0]{command} }
sub file      { return $_[0]{file} }
sub line      { return $_[0]{line} }
sub partial   { return $_[0]{partial} }
sub is_outage { return $_[0]{is_outage} ? 1 : 0 }
sub failures  { return @{ $_[0]{failures} || [] } }
sub cycle     { return @{ $_[0]{cycle} || [] } }

1;
