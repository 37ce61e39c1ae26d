package Pinyon::Cache;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(blessed reftype);

use Pinyon             ();
use Pinyon::Batch      ();
use Pinyon::Cached     ();
use Pinyon::Iterating  ();
use Pinyon::Lease      ();
use Pinyon::Making     ();
use Pinyon::MakingMany ();
use Pinyon::Settings   ();

# As `serialization` in structs.h.
my %FORM = ( portable => 0, json => 0, raw => 1, storable => 2 );

sub new {
    my ( $class, @arguments ) = @_;
    my %settings = Pinyon::Settings::given( $class, @arguments );
    my $self     = bless {}, $class;
    $self->{on_event} = Pinyon::Settings::on_event( \%settings );
    my $form = $self->_form( \%settings );
    $self->{servers} = delete $settings{servers} if !defined $settings{servers};
    $self->{subs}    = Pinyon::Settings::subs(%settings);
    $self->_attach( Pinyon::Settings::flat(%settings), $form, $settings{events} );
    _check_dialect( $settings{dialect} // 'pinyon', $form );
    return $self;
}

# The dialects of other clients say how values are stored. Perl's clients use Storable.
sub _check_dialect {
    my ( $dialect, $form ) = @_;
    return if !$form || $dialect eq 'pinyon' || ( $form == $FORM{storable} && $dialect =~ /\Acache-memcached/ );
    Pinyon::Error::Usage->throw(qq{the dialect "$dialect" says how values are stored: leave serializer out});
    return;
}

# How values are stored, by the setting `serializer`.
sub _form {
    my ( $self, $settings ) = @_;
    my $serializer = delete $settings->{serializer};
    return 0 if !defined $serializer;
    if ( blessed $serializer) {
        for my $method (qw(dump load)) {
            next if $serializer->can($method);
            Pinyon::Error::Usage->throw(
                "a serializer is an object with the methods dump and load; " . ref($serializer) . " has no $method" );
        }
        $self->{serializer} = $serializer;
        return 3;
    }
    if ( ref $serializer || !exists $FORM{$serializer} ) {
        Pinyon::Error::Usage->throw(
            "serializer is 'portable', 'json', 'raw', 'storable', or an object with the methods dump and load, not '$serializer'"
        );
    }
    $settings->{serializer} = $serializer if $serializer eq 'json';
    require Storable                      if $serializer eq 'storable';
    return $FORM{$serializer};
}

# Called where values are stored by Perl code: returns bytes and flags.
sub _dumped {
    my ( $self, $value ) = @_;
    return $self->{serializer}->dump($value) if $self->{serializer};
    my $bytes = eval { Storable::nfreeze($value) };
    if ( !defined $bytes ) {
        my $why = $@ =~ s/ at \S+ line \d+.*//sr;
        Pinyon::Error::Unpicklable->throw("Storable cannot write this value: $why");
    }
    return ( $bytes, $self->_storable_flags );
}

sub _loaded {
    my ( $self, $bytes, $flags ) = @_;
    return $self->{serializer}->load( $bytes, $flags ) if $self->{serializer};
    my $value = eval { Storable::thaw($bytes) };
    if ( !defined $value ) {
        Pinyon::Error::UndecodableValue->throw('the stored value is not what Storable writes, as its flags say it is');
    }
    return $value;
}

# The value of what is stored; nothing for one that cannot be read, and counts as missing or is made anew.
sub _read_or_pass_over {
    my ( $self, $stored, $flags, $is_lease ) = @_;
    my ( $value, $failure );
    {
        local $@ = undef;
        return $value if eval { $value = $self->_value_of( $stored, $flags ); 1 };
        $failure = $@;
    }
    my $reason = Pinyon::Error::_unreadable($failure);
    die $failure if !defined $reason || !( $self->_passes_over($reason) || $is_lease );
    return;
}

sub remove       { goto &delete }
sub remove_multi { goto &delete_multi }

sub exists {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $key ) = @_;
    return defined $self->meta($key);
}

sub iter_multi {
    my ( $self, $keys, %options ) = @_;
    my $iterating = Pinyon::Iterating->new( $self, $keys, %options );
    return sub { return $iterating->pair };
}

sub get_or_set {
    my ( $self, $key, $make, %options ) = @_;
    if ( ( reftype( $make // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('get_or_set takes a key and a reference to a sub that makes the value');
    }
    return Pinyon::Making->new( $self, $key, %options )->value($make);
}

sub get_or_set_multi {
    my ( $self, $keys, $make, %options ) = @_;
    return Pinyon::MakingMany->new( $self, $keys, $make, %options )->values_by_key;
}

sub cached {
    my ( $self, $sub, @options ) = @_;
    return Pinyon::Cached->new( $self, $sub, @options );
}

# Has a value made, whatever is stored, and stores it in its place.
sub _refreshed {
    my ( $self, $key, $make, %options ) = @_;
    return Pinyon::Making->anew( $self, $key, %options )->value($make);
}

sub lease {
    my ( $self, $key, %options ) = @_;
    my $found = $self->_lease( $key, %options );
    for ( 1 .. Pinyon::Lease::RENEWALS() ) {
        last if $found->[0] ne 'unreadable';
        $found = $self->_lease( $key, %options, unreadable => $found->[1] );
    }
    return Pinyon::Lease->new( $self, $key, $found );
}

sub quiet {
    my ( $self, $fill ) = @_;
    my $batch = Pinyon::Batch->new($self);
    return $batch if !$fill;
    $fill->($batch);
    return $batch->finish;
}

sub using {
    my ( $self, %settings ) = @_;
    my $view = bless { %{$self} }, ref $self;
    $view->_attach_view( $self, Pinyon::Settings::flat(%settings) );
    return $view;
}

sub version {
    my ($self) = @_;
    return $self->_ask_servers( 0, undef, undef );
}

sub stats {
    my ( $self, $kind ) = @_;
    return $self->_ask_servers( 1, $kind, undef );
}

sub flush_all {
    my ( $self, $delay ) = @_;
    $self->_ask_servers( 2, undef, $delay );
    return 1;
}

sub clear_namespace {
    my ($self) = @_;
    $self->_ask_servers( 3, undef, undef );
    return 1;
}

sub invalidate_tags {
    my ( $self, @tags ) = @_;
    $self->_ask_servers( 4, \@tags, undef );
    return 1;
}

sub metrics {
    my ($self) = @_;
    require JSON::PP;
    my $metrics = JSON::PP->new->utf8->decode( $self->_metrics );
    return $metrics if ref $metrics eq 'HASH';
    return { map { delete $_->{server} => $_ } @{$metrics} };
}

sub servers_of {
    my ( $self, $key ) = @_;
    Pinyon::Error::UnsupportedType->throw('a key is a string, not undef') if !defined $key;
    return $self->_servers_of($key);
}

sub servers {
    my ($self) = @_;
    return $self->_servers_of(undef);
}

# Reports events when an operation is over: a callback may use the client.
sub _tell {
    my ($self) = @_;
    my $told = $self->{on_event} or return;
    while ( my $event = $self->_next_event ) {
        next if eval { $told->($event); 1 };
        warn "pinyon: on_event failed: $@";
    }
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Cache - a client of one or more memcached servers

=head1 SYNOPSIS

    use Pinyon;

    my $cache = Pinyon::Cache->new(servers => ['127.0.0.1:11211'], namespace => 'app:');
    $cache->set(key => 'value', 60);
    say $cache->get('key');               # value
    my $found = $cache->get_multi(qw(key other));
    my $page  = $cache->get_or_set(page => sub { 'made' }, ttl => 60, stale => 30);

=head1 DESCRIPTION

All methods die with a L<Pinyon::Error> if something fails. A miss is not a failure: it returns C<undef>, or the empty list in
list context. With C<< on_failure => 'miss' >> a failed server also counts as a miss. With C<< on_unreadable => 'miss' >> so does
an unreadable value. C<get_or_set> and C<lease> always have an unreadable value made again.

A I<key> is a string. Pinyon sends a key with Perl's UTF-8 mark as UTF-8. A I<ttl> is a number of seconds. 0 never expires, and a
negative ttl expires immediately. Without a ttl, the setting C<default_ttl> applies. memcached's clock ends on 2038-01-19: an item
that would expire later expires then.

A I<value> with Perl's UTF-8 mark is text, any other string is bytes, an integer is an integer. Pinyon stores references to arrays
and hashes, C<undef>, numbers with a fraction, booleans (C<\1>, C<\0>, JSON::PP's), Math::BigInt,
L<Pinyon::Instant|Pinyon::Time>, L<Pinyon::DateTime|Pinyon::Time>, Time::Piece and DateTime as MessagePack. Pinyon reads all of
these in every language. It refuses other objects, and code.

=head1 CONSTRUCTOR

=head2 new(%settings)

Takes names and values, or a reference to a hash of them. The client connects on its first call. The settings are the same in
every language: C<servers>, C<namespace>, C<timeout>, C<connect_timeout>, C<default_ttl>, C<ring>, C<failover>, C<on_failure>, C<on_unreadable>, C<gutter>,
C<dialect>, C<compression>, C<near>, C<tls>, C<username>, C<password>, C<discovery>, C<encode_keys> and others. Pass a list as a reference
to an array, and the settings of C<tls>, C<compression> and C<near> as a reference to a hash: C<< tls => { ca => 'ca.pem' } >>. In
addition:

=over

=item serializer

C<portable> (MessagePack, the default), C<json>, C<raw> (values are strings, and C<get> returns bytes), C<storable>, or an object.
C<storable> uses L<Storable> for references. Reading them may run code, so use it only if nobody else can write to the cache. The
method C<dump($value)> of an object returns bytes and flags, and its method C<load($bytes, $flags)> returns the value.

=item on_event

Pinyon calls this sub with an event when it marks a server down, when the server is up again, and so on: after the call during
which this happened. An event is a hash with C<kind> (C<down>, C<up>, C<retry>, C<slow>, C<servers>, C<discovery>, C<classic>, C<crowded>,
C<unreadable>, C<stale>, C<certificates>, C<stale_certificates>), C<level>,
C<message>, C<server>, C<command>, C<seconds> and C<error>.

=back

=head1 METHODS FOR ONE KEY

=head2 get($key)

Returns the value.

=head2 gets($key)

Returns C<[$value, $cas]>: the value and its CAS token.

=head2 gat($key, $ttl), gats($key, $ttl)

Like C<get> and C<gets>, and set the ttl.

=head2 get_with_ttl($key)

Returns C<[$value, $seconds]>: the value and its remaining ttl; C<undef> if it never expires.

=head2 set($key, $value, $ttl, tags => \@tags)

Stores a value. C<tags> follow the ttl, or the value: L</TAGS>. Returns true, or false if no server could store it and C<on_failure>
is C<miss>.

=head2 add($key, $value, $ttl, tags => \@tags), replace($key, $value, $ttl, tags => \@tags)

C<add> stores a value only if the key is missing, C<replace> only if it exists. Return whether the value was stored.

=head2 append($key, $string), prepend($key, $string)

Add bytes to the end or the beginning of a stored string. Return whether the key exists.

=head2 cas($key, $value, $cas, $ttl, tags => \@tags)

Stores a value if the item still has this CAS token. Returns true; false if the item has changed; C<undef> if it is missing.

=head2 delete($key, stale => $seconds), remove($key)

Deletes an item and returns whether it existed. With C<stale>, the server keeps the item as stale for so many seconds: the next
caller of C<get_or_set> makes a new value, and others get the stale one meanwhile.

=head2 touch($key, $ttl)

Sets the ttl. Returns whether the item exists.

=head2 incr($key, $number, initial => $number, ttl => $ttl), decr(...)

C<incr> adds to a stored integer. C<decr> subtracts from it and stops at 0. The default number is 1. Return the new value. If the
counter is missing, C<initial> creates it; without C<initial>, the result is C<undef>.

=head2 meta($key)

Returns what the server knows about an item, without reading the value, as a hash: C<size>, C<flags>, C<cas>, C<ttl>, C<last_access>,
C<fetched>.

=head2 exists($key)

Returns whether the item exists.

=head1 METHODS FOR MANY KEYS

These methods ask all servers at the same time. If some fail, C<partial> of the error has the other results.

=head2 get_multi(@keys), gets_multi(@keys)

Return a reference to a hash of the values found, or of pairs of value and CAS token.

C<< get_multi(\@keys, failed => \my %errors) >> accepts partial results: the hash receives the error of each failed server under
the server's name, and the error of each unreadable value under its key. Without C<failed>, C<get_multi> reads all values and
then dies; C<partial> of the error has the values.

=head2 iter_multi(\@keys, chunk => 100, failed => \my %errors)

Returns a reference to a sub that returns the next key and its value, and nothing at the end. It reads any number of values in
bounded memory: C<chunk> keys at a time. Keys without a value are left out; those of a chunk come in their order. Instead of an array,
the first argument may be a reference to a sub that returns the next key, and nothing at the end. C<failed> is that of C<get_multi>.

    my $number = 0;
    my $next   = $cache->iter_multi( sub { $number < 1000 ? 'row:' . $number++ : () }, chunk => 200 );
    while ( my ( $key, $value ) = $next->() ) {
        print "$key: $value\n";
    }

In event loops, the sub returns a promise, or takes C<cb>: of a reference to an array of both, or of C<undef> at the end.

=head2 gat_multi($ttl, @keys), gats_multi($ttl, @keys)

Like C<get_multi> and C<gets_multi>, and set the ttl.

=head2 set_multi([$key, $value, $ttl] ..., tags => \@tags)

Stores many values. C<tags> are those of all; an array may have its own instead. Returns the results in order in list context,
otherwise a reference to a hash of results by key. The next
methods return the same.

=head2 add_multi, replace_multi, append_multi, prepend_multi, cas_multi, touch_multi

Each array has the arguments of the method for one key.

=head2 delete_multi(@keys), remove_multi(@keys), incr_multi(@keys), decr_multi(@keys)

Take keys, or arrays of arguments.

=head2 quiet($sub)

Calls the sub with a L<Pinyon::Batch>, which sends commands without waiting for each reply. Dies with a
L<Pinyon::Error|Pinyon::Error>::Batch if commands failed. Without a sub, it returns the batch.

=head1 PREVENTING CACHE STAMPEDES

=head2 get_or_set($key, $sub, ttl => $seconds, stale => $seconds, %options)

Returns the value. If it is missing, one caller makes it with its sub and all others wait for it: in all processes, on all
machines, and in all languages. If the sub dies, C<get_or_set> dies with the same error. The sub may return a
L<Pinyon::Made|Pinyon::Made> with the value. The options are in seconds, but for C<jitter>, C<on_error> and
C<refresh>:

=over

=item ttl

How long the value is fresh; or a reference to a sub that gets the value and returns its ttl.

=item stale

How long after that callers still get the old value, while one of them makes a new one.

=item early

How long before the end of the ttl one caller makes a new value.

=item lease

How long one caller may take to make the value; 10 by default.

=item wait

How long to wait for another caller's value; 0 does not wait.

=item jitter

The share of the ttl that may be taken off at random, such as 0.1: values that were stored together do not expire together.

=item on_error

C<raise>, the default; or C<stale>: if the sub dies while there is an old value, returns the old value, and reports the event
C<stale>. It needs C<stale> or C<early>.

=item retry_after

How long the old value is used then before the next caller calls its sub; 5 by default.

=item soft_timeout

In event loops only: how long a caller waits for its own sub while there is an old value. Then it gets the old value, and the
new one is made behind it. It needs C<stale> or C<early>. Clients that block refuse it.

=item refresh

C<wait>, the default; or C<behind>, in event loops only: as a C<soft_timeout> of 0.

=item tags

The L<tags|/TAGS> of the value, as they are before the sub is called.

=back

=head2 get_or_set_multi(\@keys, $sub, ttl => $seconds, failed => \my %errors, %options)

Returns a reference to a hash of the values by key. Pinyon calls the sub once with the keys that are missing or due and that no
other caller makes; it returns a reference to a hash of their values, or of a L<Pinyon::Made|Pinyon::Made> with each. The values that
others make it waits for. A key that the sub leaves out is missing in the result, and the next caller makes it. If the sub dies,
C<get_or_set_multi> dies with the same error.

Each key fails by itself: the first such error is thrown when all others have ended, and its C<partial> has the values of those.
With C<failed>, nothing is thrown, and the hash receives the error of each key. The other options are those of C<get_or_set>.

    my $products = $cache->get_or_set_multi(
        [ 'product:1', 'product:2' ],
        sub { my @keys = @_; return { map { $_ => "made for $_" } @keys } },
        ttl => 60,
    );

=head2 cached($sub, key => 'product:{0}', ttl => $seconds, %options)

Returns the sub with its results cached, as a L<Pinyon::Cached>: call it as the sub itself. The key has the numbers of arguments in
braces, from 0; a brace itself is written twice. It may also be a reference to a sub that makes it of the arguments. All other
options are those of C<get_or_set>. Dies if the key or an option makes no sense.

=head2 lease($key, lease => $seconds, recache => $seconds)

Returns a L<Pinyon::Lease>, which offers the single steps of C<get_or_set>.

=head1 TAGS

A value may have tags: names of what it was made from. They are one string, or a reference to an array of strings.
C<invalidate_tags> has all values with a tag count as missing, whatever their keys are, and in whatever language they were stored.

    $cache->set( 'profile:7' => { name => 'Ada' }, 3600, tags => ['user:7'] );
    $cache->get_or_set( 'orders:7' => sub { [ 1, 2, 3 ] }, ttl => 3600, tags => [ 'user:7', 'orders' ] );
    $cache->invalidate_tags('user:7');

A value that was made before an invalidation, and is stored after it, does not count if C<get_or_set> has it made. C<set> does not
notice an invalidation between the making and the call.

=head2 invalidate_tags(@tags)

Has all values with one of these tags count as missing. This process sees it at once, others within their C<generation_ttl>. Dies
if a server of a tag cannot be reached, also with C<< on_failure => 'miss' >>: call it again.

=head1 SERVERS

=head2 version, stats($kind)

Return references to hashes by the servers' names.

=head2 flush_all($delay)

Deletes all items of all servers, including those of other programs.

=head2 clear_namespace

Forgets all items of the client's namespace, and nothing else. It needs the settings C<namespace> and C<clearable>. This process
sees the clear at once, others within their C<generation_ttl>. If a server cannot be reached, it dies with an error that names the
server. The other servers are cleared, and this one is before this process sends it anything else.

=head2 servers, servers_of($key)

Return lists of names: of all servers, and of those that may hold a key, in the order in which Pinyon asks them.

=head2 metrics

Returns what happened on the connections of this process: a reference to a hash by the servers' names.

=head2 near_metrics

Returns what came of the keys that the setting C<near> keeps in the memory of this process: a reference to a hash of C<hits> (values
returned without asking a server), C<fills> (values that were read and kept), C<revalidations> (of these, values that were in memory,
but no longer fresh), C<evictions> (values that made room for others) and C<bytes> (the memory in use). Without C<near> they are 0.
It contacts no server. In event loops, too, it returns the hash itself.

=head2 namespace

Returns the bytes that precede every key.

=head2 using(%settings)

Returns a view of the client with other values of C<failover>, C<on_failure>, C<on_unreadable>, C<near> or C<namespace>. The view shares
everything else with the client.

=head2 close

Closes all connections. Further calls die.

=head1 SEE ALSO

L<Pinyon>, L<Pinyon::Locks>, L<Pinyon::Error>

=cut
