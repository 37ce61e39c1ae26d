package Pinyon::Compat::Cache_Memcached;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp           ();
use Compress::Zlib ();
use Hash::Util     ();
use Time::HiRes    ();

use parent qw(Pinyon::Compat::Client);

# What must be saved by compression: the size of what is kept is below this part.
use constant KEPT => 0.8;

# The largest number of memcached's counters.
use constant MOST => '18446744073709551615';

my %IS_TOTALLED = map { $_ => 1 } qw(
    bytes bytes_read bytes_written cmd_get cmd_set connection_structures curr_items get_hits get_misses
    total_connections total_items
);

# ---- Making ----------------------------------------------------------------------------------------------------

sub new {
    my ( $class, @given ) = @_;
    my %given = @given == 1 ? %{ $given[0] || {} } : @given;
    my $self  = ref $class  ? $class : bless {}, $class;
    Hash::Util::unlock_hashref($self);    # fields::new has made the subclass's object
    $self->{stored} = Pinyon::Compat::Stored->new(
        compress  => [ \&_gzipped, \&_gunzipped ],
        threshold => $given{compress_threshold} // 0,
        takes_any => 1,
    );
    $self->{namespace}        = $given{namespace} // q{};
    $self->{hashes_namespace} = 0;
    $self->{nowait}           = 0;
    $self->{stats}            = {};
    $self->{debug}            = $given{debug} || 0;
    @{$self}{qw(readonly no_rehash stat_callback)} = @given{qw(readonly no_rehash stat_callback)};
    $self->{connect_timeout} = $given{connect_timeout} || 0.25;
    $self->{select_timeout}  = $given{select_timeout}  || 1;
    utf8::encode( $self->{namespace} ) if utf8::is_utf8( $self->{namespace} );
    return $self->set_servers( $given{servers} );
}

sub _gzipped {
    my ( $plain, $compressed ) = @_;
    ${$compressed} = Compress::Zlib::memGzip( ${$plain} );
    return defined ${$compressed} && length ${$compressed} < KEPT * length ${$plain};
}

sub _gunzipped {
    my ( $compressed, $plain ) = @_;
    return defined( ${$plain} = Compress::Zlib::memGunzip( ${$compressed} ) );
}

sub set_servers {
    my ( $self, $list ) = @_;
    my @servers;
    for my $server ( @{ $list || [] } ) {
        my ( $address, $weight ) = ref $server eq 'ARRAY' ? @{$server} : ( $server, 1 );
        $weight = int( $weight // 0 );
        push @servers, [ $address, $weight ] if $weight > 0;
    }
    $self->{servers} = \@servers;
    $self->{buckets} = [ map { ( $_->[0] ) x $_->[1] } @servers ];
    $self->_rebuild;
    return $self;
}

sub _rebuild {
    my ($self) = @_;
    my $told = $self->{cb_connect_fail};
    delete $self->{single};
    return $self->_begin(
        $self->{servers},
        ring            => 'cache-memcached',
        failover        => $self->{no_rehash} ? 0 : 1,
        timeout         => $self->{select_timeout},
        connect_timeout => $self->{connect_timeout},
        $told ? ( on_event => sub { $told->( $_[0]{server} ) if $_[0]{kind} eq 'down' } ) : (),
    );
}

my %REBUILT = (
    set_connect_timeout => 'connect_timeout',
    set_norehash        => 'no_rehash',
    set_cb_connect_fail => 'cb_connect_fail',
);
for my $method ( keys %REBUILT ) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, $value ) = @_;
        $self->{ $REBUILT{$method} } = $value;
        $self->_rebuild;
        return $value;
    };
}

sub set_compress_threshold {
    my ( $self, $threshold ) = @_;
    $self->{stored}->set_threshold($threshold);
    return $threshold;
}

sub enable_compress {
    my ( $self, $is_enabled ) = @_;
    $self->{stored}->enable_compress($is_enabled);
    return $is_enabled;
}

sub set_readonly      { my ( $self, $is_readonly ) = @_; return $self->{readonly}      = $is_readonly }
sub set_stat_callback { my ( $self, $told )        = @_; return $self->{stat_callback} = $told }
sub set_debug         { my ( $self, $level )       = @_; return $self->{debug}         = $level || 0 }
sub set_pref_ip       { my ( $self, $addresses )   = @_; return $self->{pref_ip}       = $addresses }

# ---- Calls -----------------------------------------------------------------------------------------------------

# The client and the key, in bytes. A key may be a pair of a number, which decides about the server, and a key.
sub _place {
    my ( $self, $given ) = @_;
    return ( $self->{cache}, $self->_key($given) ) if ref $given ne 'ARRAY';
    my ( $number, $key ) = @{$given};
    my $buckets = $self->{buckets};
    return ( $self->{cache}, $self->_key($key) ) if @{ $self->{servers} } < 2;
    my $address = $buckets->[ int($number) % @{$buckets} ];
    return ( $self->_single($address), $self->_key($key) );
}

# A client of one of the servers alone.
sub _single {
    my ( $self, $address ) = @_;
    return $self->{single}{$address}
        ||= Pinyon::Cache->new( %{ $self->{settings} }, namespace => $self->{namespace}, servers => [$address] );
}

# Carries out a command: what it returns, or the other value if it fails.
sub _call {
    my ( $self, $method, $given, @arguments ) = @_;
    my ( $client, $key ) = $self->_place($given);
    my $begin = $self->{stat_callback} && Time::HiRes::time();
    $self->{stats}{$method}++;
    local $@ = undef;
    my $result;
    my $is_done = eval { $result = $client->$method( $key, @arguments ); 1 };
    my $failure = $@;
    Pinyon::Compat::Common::_failed($failure)      if !$is_done;
    $self->_tell( $begin, $method, $client, $key ) if $begin;
    return ( 1, $result )                          if $is_done;
    return ( 0, $failure->sent eq 'no' ? 0 : q{} );
}

sub _tell {
    my ( $self, $begin, $method, $client, $key ) = @_;
    my ($server) = eval { $client->servers_of($key) };
    $self->{stat_callback}->( $begin, Time::HiRes::time(), $server, $method );
    return;
}

sub _is_shut {
    my ($self) = @_;
    return $self->{readonly} || !@{ $self->{servers} };
}

for my $method (qw(set add replace)) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, $key, $value, $ttl ) = @_;
        return 0                    if $self->_is_shut;
        return _warn_of_undef($key) if !defined $value;
        my $stored = $self->{stored}->packed($value);
        my ( undef, $result ) = $self->_call( $method, $key, $stored, Pinyon::Compat::Common::_ttl($ttl) );
        return $result;
    };
}

for my $method (qw(append prepend)) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, $key, $value ) = @_;
        return 0                                                 if $self->_is_shut;
        Carp::croak('append or prepend cannot take a reference') if ref $value;
        return _warn_of_undef($key)                              if !defined $value;
        utf8::encode($value)                                     if utf8::is_utf8($value);
        my ( undef, $result ) = $self->_call( $method, $key, "$value" );
        return $result;
    };
}

sub _warn_of_undef {
    my ($key) = @_;
    Carp::carp( 'value for memkey:' . ( ref $key ? $key->[1] : $key ) . ' is not defined' );
    return q{};
}

sub delete {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $key ) = @_;
    return 0 if $self->_is_shut;
    my ( undef, $result ) = $self->_call( delete => $key );
    return $result;
}

for my $method (qw(incr decr)) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        my ( $self, $key, $number ) = @_;
        my $delta = _delta($number);
        return undef if $self->_is_shut || !defined $delta;    ## no critic (ProhibitExplicitReturnUndef)
        my ( $is_done, $result ) = $self->_call( $method, $key, $delta );
        return $is_done ? $result : undef;
    };
}

# The original sends the text that it is given, and memcached takes digits that are a number below 2**64.
sub _delta {
    my ($number) = @_;
    my ($digits) = ( $number // 1 ) =~ /\A\s*[+]?0*(\d{1,20})\s*\z/a or return;
    return if length $digits == length MOST && $digits gt MOST;
    return $digits;
}

sub get {
    my ( $self, $given ) = @_;
    my $found = $self->get_multi($given);
    my $key   = _found_as($given);
    return $found->{$key};
}

# The name of a key in results, which has no mark of Perl's.
sub _found_as {
    my ($given) = @_;
    my $key     = ref $given eq 'ARRAY' ? $given->[1] : $given;
    $key = defined $key ? "$key" : q{};
    utf8::encode($key) if utf8::is_utf8($key);
    return $key;
}

sub get_multi {
    my ( $self, @given ) = @_;
    return {} if !@{ $self->{servers} };
    my $begin = $self->{stat_callback} && Time::HiRes::time();
    $self->{stats}{get_multi}++;
    $self->{stats}{get_keys} += @given;
    my ( %client, %keys );
    for my $given (@given) {
        my ( $client, $key ) = $self->_place($given);
        $client{$client} = $client;
        push @{ $keys{$client} }, $key;
    }
    $self->{stats}{get_socks} += keys %client;
    my %found;
    for my $name ( keys %client ) {
        local $self->{cache} = $client{$name};
        my $part = $self->_read_many( get_multi => $keys{$name} );
        @found{ keys %{$part} } = values %{$part};
    }
    $self->_tell( $begin, 'get_multi', $self->{cache}, _found_as( $given[0] ) ) if $begin && @given;
    return \%found;
}

# ---- Servers ---------------------------------------------------------------------------------------------------

sub flush_all {
    my ($self) = @_;
    return keys %{ $self->_ask('flush_all') } == keys %{ { map { @{$_} } @{ $self->{servers} } } } ? 1 : 0;
}

sub stats {
    my ( $self, $kinds ) = @_;
    return 0 if !@{ $self->{servers} } || ( ref $kinds && ref $kinds ne 'ARRAY' );
    my @kinds = ref $kinds ? @{$kinds} : $kinds || qw(misc malloc self);
    my %results = ( grep { $_ eq 'self' } @kinds ) ? ( self => $self->{stats} ) : ();
    for my $kind ( grep { $_ ne 'self' } @kinds ) {
        my $answers = $self->_ask( stats => $kind eq 'misc' ? () : $kind );
        _add_stats( \%results, $kind, $_, $answers->{$_} ) for keys %{$answers};
    }
    return \%results;
}

sub _add_stats {
    my ( $results, $kind, $server, $answer ) = @_;
    my %of = ref $answer ? %{$answer} : ();
    if ( $kind !~ /\A(?:misc|malloc|sizes)\z/ ) {
        $results->{hosts}{$server}{$kind} = join q{}, map { "STAT $_ $of{$_}\r\n" } sort keys %of;
        return;
    }
    for my $name ( keys %of ) {
        $results->{hosts}{$server}{$kind}{$name} = $of{$name};
        $results->{total}{$name}          += $of{$name} if $kind eq 'misc' && $IS_TOTALLED{$name};
        $results->{total}{"malloc_$name"} += $of{$name} if $kind eq 'malloc';
    }
    return;
}

sub stats_reset {
    my ($self) = @_;
    return 0 if !@{ $self->{servers} };
    $self->_ask( stats => 'reset' );
    return 1;
}

sub forget_dead_hosts {
    my ($self) = @_;
    $self->disconnect_all if ref $self;
    return 1;
}

sub disconnect_all {
    my ($self) = @_;
    return if !ref $self;
    delete $self->{single};
    return $self->SUPER::disconnect_all;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Compat::Cache_Memcached - Cache::Memcached's interface on Pinyon's client

=head1 SYNOPSIS

    use Pinyon::Compat::Cache_Memcached;

    my $memd = Pinyon::Compat::Cache_Memcached->new({ servers => ['127.0.0.1:11211'], namespace => 'app:' });
    $memd->set(key => { name => 'Ada' }, 60);
    say $memd->get('key')->{name};    # Ada

=head1 DESCRIPTION

This class has the constructor and the methods of Cache::Memcached 1.30, with the same results. Keys go to the same servers, and
values have the same bytes and flags. So programs with either client can share a cache.

If your code names the original, C<use Pinyon::Compat::Replace 'Cache::Memcached'> gives it this class.

=head1 CONSTRUCTOR

=head2 new(\%settings), new(%settings)

C<servers> (C<host:port>, a path, or C<[address, weight]>), C<namespace>, C<compress_threshold>, C<readonly>, C<no_rehash>,
C<stat_callback>, C<connect_timeout> and C<select_timeout>, in seconds. C<debug> and C<pref_ip> are accepted and have no effect.

=head1 METHODS

A key may be a pair C<[$number, $key]>; the number selects the server.

=head2 set($key, $value, $ttl), add, replace, append($key, $value), prepend, delete($key)

Return whether the server did it.

=head2 incr($key, $number), decr($key, $number)

The number, or C<undef>.

=head2 get($key), get_multi(@keys)

The value, or C<undef>; a reference to a hash of what was found.

=head2 flush_all

Returns 1, or 0 if a server failed.

=head2 stats($kinds), stats_reset

Statistics of the servers, by C<hosts>, C<total> and C<self>.

=head2 set_servers, set_readonly, set_norehash, set_compress_threshold, enable_compress, set_connect_timeout, set_stat_callback, set_cb_connect_fail, set_debug, set_pref_ip

Change settings.

=head2 forget_dead_hosts, disconnect_all

Open new connections.

=head1 WHAT DIFFERS

C<get_sock>, C<sock_to_host>, C<run_command> and C<init_buckets> are missing, because they work on Perl's sockets. C<stat_callback>
gets the name of the server instead of a socket. Pinyon does not send a key that is empty, has a space or a control character, or is
longer than 250 bytes with its namespace. C<delete> ignores a time, which memcached has refused since version 1.4. A pair is a miss
if its server is down.

=head1 SEE ALSO

L<Pinyon::Cache>, L<Pinyon::Compat::Cache_Memcached_Fast>

=cut
