package Pinyon::Error;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use overload
    q{""}    => sub { $_[0]->_as_text },
    bool     => sub { 1 },
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
    my ($kind) = $class =~ /^Pinyon::Error::(\w+)$/;
    my ( $file, $line ) = _users_place();
    return bless {
        kind    => $kind // 'Error',
        message => 'died',
        sent    => 'no',
        server  => undef,
        command => undef,
        file    => $file,
        line    => $line,
        %fields,
    }, $class;
}

# Why a stored value cannot be read, in a line, if a failure says so. A failure of a client that loading uses does not.
sub _unreadable {
    my ($failure) = @_;
    return "$failure" =~ s/ at \S+ line \d+.*//sr if !eval { $failure->isa(__PACKAGE__) };
    return $failure->isa('Pinyon::Error::UndecodableValue') ? $failure->message : undef;
}

sub throw {
    my ( $class, $message, %fields ) = @_;
    return Pinyon::_throw( $class->new( message => $message, %fields ) );
}

# As a text it is ASCII, so that printing it warns of no wide character.
sub _as_text {
    my ($self) = @_;
    my $text = $self->message . ' at ' . $self->file . ' line ' . $self->line . ".\n";
    return $text =~ s/([^\x00-\x7f])/sprintf '\\x{%x}', ord $1/ger;
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
sub cycle     { return @{ $_[0]{cycle}    || [] } }

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Error - the errors with which Pinyon dies

=head1 SYNOPSIS

    use Pinyon;

    my $cache = Pinyon::Cache->new(servers => '127.0.0.1:1');
    if (!eval { $cache->get('key'); 1 }) {
        my $error = $@;
        say 'down' if ref $error && $error->isa('Pinyon::Error::Connect');    # down
    }

=head1 DESCRIPTION

As a string, an error is its message with the caller's file and line, in ASCII: other characters appear as C<\x{263a}>. Perl calls
a C<$SIG{__DIE__}> handler for errors that reach the program, not for those that Pinyon catches itself. The classes below C<Pinyon::Error::> are C<Timeout>
(below it C<LeaseTimeout> and C<LockTimeout>), C<Connect>, C<ConnectionLost>, C<ServerDown>, C<Protocol>, C<Server>,
C<Unsupported>, C<Usage> (below it C<InvalidKey>, C<InvalidServers>, C<InvalidName>), C<ValueTooLarge>, C<UnsupportedType>
(below it C<Unpicklable>), C<UndecodableValue> (below it C<UnknownFlags>), C<Closed>, C<Batch>, C<MakerFailed>, C<Internal>, and
C<Lock> (below it C<LockTimeout>, C<LockLost>, C<AlreadyHeld>, C<Deadlock>).

=head1 METHODS

=head2 message

What happened, to what, and what to do.

=head2 kind

The name that the error has in every language, such as C<ConnectError>.

=head2 sent

Says whether the server may have run the command: C<no> (it was not sent), C<maybe> (it was sent, and no reply came) or C<yes>
(the server replied).

=head2 server, command

The server's name, and the protocol's name of the command; C<undef> if there was none.

=head2 file, line

Where the program called Pinyon.

=head2 is_outage

Whether a server failed, rather than refused the command.

=head2 partial

The results that arrived, of a method for many keys or all servers.

=head2 failures

Of C<Batch>: hashes of C<command>, C<key>, C<reason> and C<error>.

=head2 cycle

Of C<Deadlock>: the attempts that wait for each other.

=head2 new(%fields), throw($message, %fields)

For Pinyon's own modules.

=cut
