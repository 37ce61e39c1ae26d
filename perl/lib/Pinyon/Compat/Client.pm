package Pinyon::Compat::Client;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp         ();
use Scalar::Util qw(blessed);

use Pinyon                 ();
use Pinyon::Compat::Common qw(_counted _failed _is_unread _is_unreadable _number _ttl);
use Pinyon::Compat::Many   ();
use Pinyon::Compat::Stored ();

our @ISA = ('Pinyon::Compat::Many');    ## no critic (ProhibitExplicitISA)

our @CARP_NOT = @Pinyon::Compat::Common::CARP_NOT;

# Seconds that stand for "without end".
use constant DAY => 24 * 60 * 60;

# What the server, not the client, limits; and what is read at most.
use constant MOST_STORED => 1 << 30;

# ---- Making ----------------------------------------------------------------------------------------------------

# `servers` are pairs of address and weight; the other settings are Pinyon::Cache's.
#
# There are two clients. `exact` leaves all of a value's form to Pinyon::Compat::Stored. Where `is_plain`, `cache` reads and
# writes common values without a call of Perl code; what it cannot read is asked of `exact` again. Neither connects before it
# is used.
sub _begin {
    my ( $self, $servers, %settings ) = @_;
    $self->{servers} = $servers;
    $self->{stored}->leave_plain if $self->{is_plain};
    $self->{settings} = {
        serializer     => $self->{stored},
        failover       => 0,
        max_value_size => MOST_STORED,
        %settings,
    };
    $self->_connect;
    return $self;
}

sub _connect {
    my ($self) = @_;
    delete @{$self}{qw(batch quick)};
    my @servers = map { $_->[0] . _weight( $_->[1] ) } @{ $self->{servers} };
    my %given   = ( servers => \@servers, %{ $self->{settings} } );
    my $nowhere = @servers ? undef : bless {}, 'Pinyon::Compat::Client::Nowhere';
    $self->{exact_root} = $nowhere || Pinyon::Cache->new(%given);
    $self->{root}       = $self->{exact_root};
    if ( $self->{is_plain} && !$nowhere ) {
        $self->{root} = Pinyon::Cache->new(
            %given,
            serializer     => 'storable',
            dialect        => 'cache-memcached-fast',
            max_value_size => $self->{stored}->max_size,
        );
    }
    $self->_use_namespace;
    return;
}

# Pinyon takes six decimals.
sub _weight {
    my ($weight) = @_;
    return q{} if !defined $weight || $weight == 1;
    my $decimal = sprintf '%.6f', $weight;
    $decimal =~ s/[.]?0+\z// if $decimal =~ /[.]/;
    return ":$decimal";
}

sub _use_namespace {
    my ($self) = @_;
    my $namespace = $self->{namespace};
    $self->{prefix}     = $self->{hashes_namespace} ? $namespace : q{};
    $self->{has_prefix} = length $self->{prefix};
    my $is_bare = $self->{hashes_namespace} || $namespace eq q{};
    for my $name (qw(cache exact)) {
        my $root = $self->{ $name eq 'cache' ? 'root' : 'exact_root' };
        $self->{$name} = $is_bare ? $root : $root->using( namespace => $namespace );
    }
    return;
}

sub namespace {
    my ( $self, @given ) = @_;
    my $before = $self->{namespace};
    return $before if !@given;
    $self->_settle;
    my $namespace = $given[0] // q{};
    utf8::encode($namespace) if utf8::is_utf8($namespace);
    $self->{namespace} = $namespace;
    if ( !eval { $self->_use_namespace; 1 } ) {
        my $why = $@;
        $self->{namespace} = $before;
        $self->_use_namespace;
        die $why;
    }
    return $before;
}

sub enable_compress {
    my ( $self, $is_enabled ) = @_;
    $self->{stored}->enable_compress($is_enabled);
    return;
}

sub disconnect_all {
    my ($self) = @_;
    return if !ref $self;
    $self->_settle;
    my @old = @{$self}{qw(root exact_root)};
    $self->_connect;
    $_->close for @old;
    return;
}

# ---- One key ---------------------------------------------------------------------------------------------------

# A key, in bytes, behind the namespace where Pinyon does not know that.
sub _key {
    my ( $self, $key ) = @_;
    $key = defined $key ? "$key" : q{};
    utf8::encode($key) if utf8::is_utf8($key);
    return $self->{prefix} . $key;
}

# Sends a command without waiting for its reply. The two clients have connections of their own, so that one waits for the
# other. What needs no care is sent by `_push_set` and its like, as long as there is `quick`.
sub _push {
    my ( $self, $client, $method, @arguments ) = @_;
    return         if blessed $client && $client->isa('Pinyon::Compat::Client::Nowhere');
    $self->_settle if $self->{batch}  && ( $self->{batch_of} ne $client || $self->{batch}->_is_full );
    local $@ = undef;
    my $old = $self->{batch};
    return if eval { $self->_push_now( $client, $method, @arguments ); 1 };
    _failed($@);
    return if !$old || !$@->isa('Pinyon::Error::Usage');

    # The batch belongs to the process before a fork, or to another thread.
    $self->_settle;
    eval { $self->_push_now( $client, $method, @arguments ); 1 } or _failed($@);
    return;
}

sub _push_now {
    my ( $self, $client, $method, @arguments ) = @_;
    my $batch = $self->{batch} ||= $client->quiet;
    $self->{batch_of} = "$client";
    $self->{quick} ||= [ $batch, $client, $self->{stored} ] if $client == $self->{cache} && !$self->{has_prefix};
    $batch->_push( $client, Pinyon::Batch::_number_of($method), @arguments );
    return;
}

# Waits until the commands are carried out that were not waited for.
sub _settle {
    my ($self)  = @_;
    my ($batch) = delete @{$self}{qw(batch quick)};
    return if !$batch;
    local $@ = undef;
    eval { $batch->_finish; 1 } or _failed($@);
    return;
}

# The client to write values with, and the values in its form; undef for those that are too large.
sub _writing {
    my ( $self, @values ) = @_;
    my $stored = $self->{stored};
    return ( $self->{cache}, map { ref $_ ? $_ : "$_" } @values ) if $self->{is_plain} && $stored->are_plain(@values);
    return ( $self->{exact}, map { scalar $stored->packed($_) } @values );
}

# These are the most used: they call few subs of Perl's. `_push_set` and its like have the arguments of the method.
for my $method (qw(set add replace)) {
    my $call = Pinyon::Cache->can($method);
    my $push = __PACKAGE__->can("_push_$method");
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        return if !defined wantarray && $_[0]{quick} && &{$push};
        my ( $self, $key, $value, $ttl ) = @_;
        my ( $client, $stored );
        if ( defined $value && !ref $value && length $value < $self->{stored}{plain_below} && !utf8::is_utf8($value) ) {
            ( $client, $stored ) = ( $self->{cache}, "$value" );
        }
        else {
            ( $client, $stored ) = $self->_writing($value);
            return if !defined $stored;
        }
        $key = $self->_key($key) if $self->{has_prefix} || !defined $key || ref $key;
        $ttl = $ttl ? _ttl($ttl) : 0;
        return $self->_push( $client, $method, $key, $stored, $ttl ) if $self->{nowait} && !defined wantarray;
        $self->_settle                                               if $self->{batch};
        local $@ = undef;
        return eval { $client->$call( $key, $stored, $ttl ) } // _failed($@);
    };
}

for my $method (qw(append prepend)) {
    my $push = __PACKAGE__->can("_push_$method");
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        return if !defined wantarray && $_[0]{quick} && &{$push};
        my ( $self, $key, $value ) = @_;
        my $stored = $self->{stored}->packed($value) or return;
        $key = $self->_key($key);
        return $self->_push( $self->{cache}, $method, $key, $stored->[0] ) if $self->{nowait} && !defined wantarray;
        $self->_settle                                                     if $self->{batch};
        local $@ = undef;
        my $result = eval { $self->{cache}->$method( $key, $stored->[0] ) } // return _failed($@);
        return $result;
    };
}

sub cas {
    my ( $self, $key, $cas, $value, $ttl ) = @_;
    my ( $client, $stored ) = $self->_writing($value);
    return         if !defined $stored;
    $self->_settle if $self->{batch};
    local $@ = undef;
    my $result;
    eval { $result = $client->cas( $self->_key($key), $stored, $cas // 0, _ttl($ttl) ); 1 } or return _failed($@);
    return $result // q{};
}

sub delete {    ## no critic (ProhibitBuiltinHomonyms)
    return if !defined wantarray && $_[0]{quick} && &_push_delete;
    my ( $self, $key, $time ) = @_;
    Carp::carp('non-zero delete expiration time is ignored') if $time;
    $key = $self->_key($key);
    return $self->_push( $self->{cache}, delete => $key ) if $self->{nowait} && !defined wantarray;
    $self->_settle                                        if $self->{batch};
    local $@ = undef;
    my $result = eval { $self->{cache}->delete($key) } // return _failed($@);
    return $result;
}
sub remove { goto &delete }

sub touch {
    return if !defined wantarray && $_[0]{quick} && &_push_touch;
    my ( $self, $key, $ttl ) = @_;
    my @arguments = ( $self->_key($key), _ttl($ttl) );
    return $self->_push( $self->{cache}, touch => @arguments ) if $self->{nowait} && !defined wantarray;
    $self->_settle                                             if $self->{batch};
    local $@ = undef;
    my $result = eval { $self->{cache}->touch(@arguments) } // return _failed($@);
    return $result;
}

for my $method (qw(incr decr)) {
    my $call = Pinyon::Cache->can($method);
    my $push = __PACKAGE__->can("_push_$method");
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{$method} = sub {
        return if !defined wantarray && $_[0]{quick} && &{$push};
        my ( $self, $key, $number ) = @_;
        my @arguments = ( $self->_key($key), _number($number) );
        return $self->_push( $self->{cache}, $method, @arguments ) if $self->{nowait} && !defined wantarray;
        $self->_settle                                             if $self->{batch};
        local $@ = undef;
        my $result;
        eval { $result = $self->{cache}->$call(@arguments); 1 } or return _failed($@);
        return _counted($result);
    };
}

sub get {
    my ( $self, $key ) = @_;
    $self->_settle if $self->{batch};
    $key = $self->_key($key) if $self->{has_prefix} || !defined $key || ref $key;
    local $@ = undef;
    my $found = eval { $self->{cache}->get($key) } // $self->_asked_again( get => $key ) // return;
    return               if ref $found            && _is_unreadable($found);
    utf8::encode($found) if utf8::is_utf8($found) && !$self->{stored}{has_text};
    return $found;
}

# What `cache` could not read, but for other reasons than a server's.
sub _asked_again {
    my ( $self, $method, @arguments ) = @_;
    return if !$@;
    _failed($@);
    return if !_is_unread($@);
    return eval { $self->{exact}->$method(@arguments) } // _failed($@);
}

sub gets {
    my ( $self, $key ) = @_;
    return $self->_read_pair( gets => $self->_key($key) );
}

sub gat {
    my ( $self, $ttl, $key ) = @_;
    my $found = $self->_read_pair( gats => $self->_key($key), _ttl($ttl) ) or return;
    return $found->[1];
}

sub gats {
    my ( $self, $ttl, $key ) = @_;
    return $self->_read_pair( gats => $self->_key($key), _ttl($ttl) );
}

# A CAS token and a value.
sub _read_pair {
    my ( $self, $method, @arguments ) = @_;
    $self->_settle if $self->{batch};
    local $@ = undef;
    my $pair = eval { $self->{cache}->$method(@arguments) } // $self->_asked_again( $method, @arguments );
    return                     if !$pair || _is_unreadable( $pair->[0] );
    utf8::encode( $pair->[0] ) if utf8::is_utf8( $pair->[0] ) && !$self->{stored}{has_text};
    return [ reverse @{$pair} ];
}

# ---- Servers ---------------------------------------------------------------------------------------------------

# Calls a method that asks all servers: what they answered, by the addresses as they were given.
sub _ask {
    my ( $self, $method, @arguments ) = @_;
    $self->_settle;
    local $@ = undef;
    my $answers = eval { $self->{root}->$method(@arguments) };
    if ( !$answers ) {
        my $why = $@;
        _failed($why);
        $answers = $why->partial || {};
    }
    my %by_address;
    for my $server ( @{ $self->{servers} } ) {
        my $address = $server->[0];
        my $name    = $address =~ m{\A/|:\d+\z} ? $address : "$address:11211";
        next if ref $answers && !exists $answers->{$name};
        $by_address{$address} = ref $answers ? $answers->{$name} : 1;
    }
    return \%by_address;
}

sub server_versions {
    my ($self) = @_;
    return $self->_ask('version');
}

sub nowait_push {
    my ($self) = @_;
    $self->_settle;
    return;
}

sub DESTROY {
    my ($self) = @_;
    return if ${^GLOBAL_PHASE} eq 'DESTRUCT' || !$self->{batch};
    local ( $@, $!, $? );
    eval { $self->_settle; 1 } or return;
    return;
}

# In place of a client without servers: everything fails.
package Pinyon::Compat::Client::Nowhere;

our $AUTOLOAD;

sub AUTOLOAD {    ## no critic (ProhibitAutoloading)
    Pinyon::Error::ServerDown->throw('the client has no servers');
    return;
}

sub using   { return $_[0] }
sub close   { return }         ## no critic (ProhibitBuiltinHomonyms)
sub DESTROY { return }

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Compat::Client - what the clients of Pinyon::Compat share: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Compat::Cache_Memcached_Fast>.

=cut
