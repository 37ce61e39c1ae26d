package Pinyon::Locks;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(reftype);

use Pinyon           ();
use Pinyon::Leader   ();
use Pinyon::Lock     ();
use Pinyon::Permits  ();
use Pinyon::Rate     ();
use Pinyon::Settings ();

sub new {
    my ( $class, @arguments ) = @_;
    my $url      = @arguments % 2 && ref $arguments[0] ne 'HASH' ? shift @arguments : undef;
    my %settings = Pinyon::Settings::given( $class, @arguments );
    $settings{url} = $url if defined $url;
    my $self = bless { on_event => Pinyon::Settings::on_event( \%settings ) }, $class;
    $self->{subs} = Pinyon::Settings::subs(%settings);
    $self->_attach( Pinyon::Settings::flat(%settings) );
    return $self;
}

sub synchronized {
    my $self   = shift;
    my ($code) = splice @_, 1, 1;
    if ( ref $code ne 'CODE' && ( reftype( $code // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('synchronized takes names and a reference to a sub');
    }
    my $lock = $self->lock(@_);
    if (wantarray) {
        my @results = $code->($lock);
        $lock->_ends;
        return @results;
    }
    my $result = $code->($lock);
    $lock->_ends;
    return $result;
}

sub read {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $names, @options ) = @_;
    return $self->lock( [], read => $names, @options );
}

sub write {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, @arguments ) = @_;
    return $self->lock(@arguments);
}

sub permits {
    my ( $self, $pool, %options ) = @_;
    return Pinyon::Permits->_new( $self, $pool, %options );
}

sub once {
    my $self   = shift;
    my ($code) = splice @_, 1, 1;
    my ( $names, $options ) = _once_options( $code, @_ );
    my $lock = $self->try_lock( $names, %{$options} ) or return;
    my ( $in_list, @results ) = wantarray;
    my $is_done = eval {
        if   ($in_list) { @results    = $code->($lock) }
        else            { $results[0] = $code->($lock) }
        1;
    };
    if ( !$is_done ) {
        my $error = $@;
        eval { $lock->_release_early; 1 } or undef $lock;
        die $error;
    }
    $lock->_ends;
    return $in_list ? @results : $results[0];
}

# The names, and the options of the lock.
sub _once_options {
    my ( $code, $names, @options ) = @_;
    if ( ( reftype( $code // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('once takes names, a reference to a sub, and per');
    }
    my %options = @options;
    my $per     = delete $options{per} // Pinyon::Error::Usage->throw('once needs per: the seconds in which its sub runs once');
    return ( $names, { %options, at_least => $per } );
}

sub leader {
    my ( $self, $name, %options ) = @_;
    return Pinyon::Leader->_new( $self, $name, %options );
}

sub adopt {
    my ( $self, $ticket, @options ) = @_;
    Pinyon::Error::UnsupportedType->throw('a ticket is a string') if !defined $ticket || ref $ticket;
    my ( undef, undef, undef, undef, undef, undef, @names ) = split m{/}, $ticket =~ s/\s+\z//r;
    s/%([[:xdigit:]]{2})/chr hex $1/eg for @names;
    return $self->lock( \@names, @options, ticket => $ticket );
}

sub release_all {
    my ( $self, $timeout ) = @_;
    $self->_take_notes;
    return $self->_release_all($timeout);
}

sub close {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, %options ) = @_;
    $self->release_all if $options{release};
    return $self->_close;
}

sub status {
    my ( $self, $names ) = @_;
    my $found = $self->_inspect($names);
    return wantarray ? @{$found} : $found->[0];
}

sub is_locked {
    my ( $self, $names ) = @_;
    return _any_locked( $self->_inspect($names) );
}

sub owner {
    my ( $self, $names ) = @_;
    return _first_holder( $self->_inspect($names) );
}

sub waiting {
    my ( $self, $names ) = @_;
    return _count_waiting( $self->_inspect($names) );
}

# What the status of names means.
sub _any_locked {
    my ($found) = @_;
    return ( grep { defined $_->{holder} } @{$found} ) ? 1 : q{};
}

sub _first_holder {
    my ($found)  = @_;
    my ($holder) = grep { defined } map { $_->{holder} } @{$found};
    return $holder;
}

sub _count_waiting {
    my ($found) = @_;
    my %waits = map { $_ => 1 } map { @{ $_->{waiting} } } @{$found};
    return scalar keys %waits;
}

sub force_release {
    my ( $self, $names, %options ) = @_;
    return $self->_force_release( $names, $options{token} );
}

sub rate {
    my ( $self, $name, %options ) = @_;
    return Pinyon::Rate->_new( $self, $name, %options );
}

sub _rated {
    my ( $self, $rate, $terms ) = @_;
    return $rate->_result( $self->_ask_rate( $rate->name, $terms ) );
}

sub execute {
    my ( $self, @parts ) = @_;
    my $answer = $self->_execute( \@parts );
    die $answer if ref $answer && eval { $answer->isa('Pinyon::Error') };
    return $answer;
}

sub metrics {
    my ($self) = @_;
    require JSON::PP;
    return JSON::PP->new->utf8->decode( $self->_metrics );
}

# Reports an event of the servers. Without on_event, the library keeps only those that are worth a warning.
sub _tell_event {
    my ( $self, $event ) = @_;
    my $told = $self->{on_event};
    if ( !$told ) {
        warn "pinyon: $event->{message}\n";
        return;
    }
    return if eval { $told->($event); 1 };
    warn "pinyon: on_event failed: $@";
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Locks - locks that programs share on a Redis or Valkey server

=head1 SYNOPSIS

    use Pinyon;

    my $locks = Pinyon::Locks->new('redis://127.0.0.1:6379/0', namespace => 'app');
    {
        my $lock = $locks->lock([qw(account:1 account:2)], timeout => 5);
        # … until the end of the scope
    }
    say $locks->synchronized(report => sub { 'written' });    # written

=head1 DESCRIPTION

A lock has one name, or several in an array. Several names are acquired together or not at all. The caller that has waited longest
acquires the lock next. A lock writes its names: it has them alone. With C<read> it has further names together with others that read
them, and with C<permits> some permits of pools. All methods die with a L<Pinyon::Error> if something fails.

A thread of Pinyon's own renews the locks of a blocking program. If a lock is lost, Pinyon reports it at the next call of one of its
methods.

=head1 METHODS

=head2 new($url, %settings)

The URL is C<redis://user:password@host:port/database>, C<rediss://...> with TLS, C<unix:///path?db=database>,
C<redis+cluster://host,host,host>, or C<redis+sentinel://host,host,host/service/database>. Several URLs in an array are
independent servers, and a majority of them holds each lock. The settings are the same in every language: C<namespace>,
C<label>, C<ttl>, C<timeout>, C<reentrant>, C<handler>, C<fairness>, C<command_timeout>, C<connect_timeout>, C<tls> and others. In
addition:

=over

=item on_event

Pinyon calls this sub with an event of the servers, at the next call of one of its methods. An event is a hash: C<kind>
(C<connected>, C<disconnected>, C<down>, C<up>, C<gone>, C<switched>, C<sentinel_down>, C<sentinel_up>, C<renewals> for
refused ones, C<certificates>, C<stale_certificates>, or C<warning> for any other), C<level> (C<debug>, C<info> or
C<warning>), C<message> for people, C<server>, C<error>,
C<seconds> for which the server was down, and for C<switched> also C<previous>, the former primary. Without C<on_event>, Pinyon
warns of C<switched>, C<renewals>, C<stale_certificates> and C<warning>.

=back

=head2 lock($names, %options)

Acquires a lock, and returns a L<Pinyon::Lock>, which releases it at the end of its scope. The options:

=over

=item timeout

Seconds to wait for the lock; 0 does not wait.

=item ttl

Seconds for which the server keeps the lock after its holder has died.

=item renew

Whether Pinyon renews the lock; true by default.

=item max_hold

Seconds after which Pinyon no longer renews the lock.

=item reentrant

Whether the caller may acquire a lock that it already holds.

=item on_lost

Pinyon calls this sub with the lock if the lock is lost.

=item at_least

Seconds from its acquisition for which the names stay locked, even if the lock is released earlier. If its holder dies, C<ttl>
decides.

=item on_failure

C<'proceed'> lets the program go on without the lock while the servers are away, and when the lock is lost because of them, for work
that may run twice: C<is_certain> of the lock tells. C<'raise'>, as by default, dies with the error.

=item note

What the lock is for, up to 200 bytes, for people who look who holds it or waits: C<status>, C<LockTimeout> and C<pinyon locks> show it.

=item read

A name, or several in an array, that the lock has together with others that read it. A caller that waits to write one of them keeps
back those that ask to read it later. With C<read> or C<permits>, C<$names> may be an empty array.

=item permits

A hash that says how many permits of which pools the lock has: C<< {stripe => 2} >>, or C<< {stripe => [2, 10]} >> with the pool's
limit. Without it, the limit is the one that this client was told last, by the method C<permits> or here.

=back

=head2 try_lock($names, %options)

Like C<lock>, if the lock is free now; returns C<undef> otherwise.

=head2 synchronized($names, $sub, %options)

Holds a lock while the sub runs, and returns what the sub returns. The sub gets the lock as its argument. Dies with
C<Pinyon::Error::LockLost> if the lock was lost meanwhile.

=head2 read($names, %options)

Acquires names to read, as C<lock> with the option C<read>.

    my $lock = $locks->read('catalog', timeout => 5);

=head2 write($names, %options)

The same as C<lock>: the word that goes with C<read>.

=head2 permits($pool, limit => $limit, n => $n, %options)

Returns a L<Pinyon::Permits>, whose method C<lock> acquires C<n> permits (by default 1) of a pool. At most C<limit> permits are held
at the same time, by all programs that share the server. The limit that was given last counts for all. A pool and a lock of the same
name are different things. The options are those of C<lock>.

=head2 once($names, $sub, per => $seconds, %options)

Runs the sub once per period on all machines, and returns what it returns. The first caller in a period runs it; for others, C<once>
returns nothing. If the sub dies, its names are free at once, and if its process dies, after C<ttl>: then another caller runs it. A
period begins when the sub begins, whatever the clocks of the machines say. So let C<per> be a little shorter than the interval at
which the job is started. The options are C<ttl> and C<on_lost>.

    $locks->once(nightly => \&report, per => 82_800);

=head2 leader($name, on_elected => $sub, on_lost => $sub, ttl => $seconds)

Returns a L<Pinyon::Leader>: a candidate for the leadership of a name. At most one candidate of all processes leads.

=head2 adopt($ticket, %options)

Takes over a lock that another process, in any language, has handed over by C<hand_over> of L<Pinyon::Lock>. Returns the lock, as
C<lock> does. Dies with C<Pinyon::Error::LockLost> if the ticket was used before, or the lock has ended. The options are those of
C<lock>.

=head2 release_all($timeout)

Releases everything that is held through this client, and returns how many locks that were. Waits for the answers, for so many
seconds at most, by default C<command_timeout>. Releases that are not answered in time go on in the background.

=head2 status($names)

Returns what the server knows of each name as a list of hashes: C<name>, C<holder>, C<token>, C<left> and C<age> in seconds,
C<waiting>, and C<readers>: all that read the name, none if it is written. Of the holder it also has the C<host>, the C<pid>, the
C<label> of its client, and its C<note>; C<owners> has the same of all of these. In scalar context, returns the first.

=head2 is_locked($names)

Returns whether any of the names is locked.

=head2 owner($names)

Returns the holder of the first name that is locked.

=head2 waiting($names)

Returns how many callers wait for any of the names.

=head2 force_release($names, token => $token)

Takes names away from their holders; with C<token>, only from the holder with that token. Returns how many names were locked.

=head2 rate($name, limit => $permits, per => $seconds, burst => $at_once)

Returns a L<Pinyon::Rate>: how many permits a name gives in a time. C<burst> is how many it gives at once, by default C<limit>.

=head2 execute(@command)

Sends a command on the connection of the locks, and returns the server's reply.

=head2 metrics

Returns what happened to the locks of this client in this process: a hash with C<acquired>, C<queued> (had to wait), C<busy>
(others held the lock, and the caller did not wait), C<released>, C<lost> (by reason), C<errors> (by kind), C<renewals>, C<renewals_refused>,
C<connects>, C<disconnects>, C<switches> of the primary, C<proceeded> (holders that went on without their lock), C<rates_allowed> and
C<rates_refused> (checks of rates that took their permits, or did not), and C<waits>: how many acquisitions were timed (C<count>), and in
seconds their C<mean>, C<p50>, C<p90>, C<p95>, C<p99> and C<p99.9>.

=head2 server

The server's address, to show to people.

=head2 close(%options)

Closes the connections. Locks that you still hold are lost; on the server they expire after their ttl. With C<< release => 1 >>,
they are released first, as by C<release_all>. At the end of the program, all locks that it still has are released, also those in
package variables.

=cut
