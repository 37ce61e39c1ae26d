package PinyonBench::Calls;

# A connected client's methods, so that the timing loop costs every client the same.
#
# `client` is the object, and every call a code reference that takes it first: `$client->$code(...)` looks up no method.
# `set`, `add` and `replace` take key and value; `incr` and `decr` key and delta; `incr_or_create` key, delta and initial;
# `get_many` keys, and returns a hash reference; `set_many` array references of key and value, and returns a hash reference of
# what was stored. `quietly` is a code reference that takes a function and keys: it gives the function the calls to use in a
# quiet batch, and when it returns, the servers have done everything. `close` takes nothing. A call that the client lacks is
# missing.

use v5.36;
use PinyonBench::CannotDo;

my %STORES = map { $_ => 1 } qw(set add replace);

sub new ( $class, %calls ) {
    return bless {%calls}, $class;
}

# Returns a client's own methods under the names above. `%names` are the client's names where they differ.
sub of ( $class, $client, $names, %others ) {
    my %calls = map {
        my $method = $names->{$_};
        $_ => $client->can($method) // die ref $client, " has no method $method\n"
    } keys %$names;
    return $class->new( client => $client, %calls, %others );
}

# Returns each step as an object, a code reference and the arguments.
sub bound ( $self, $steps, $row ) {
    return map { [ $self->{client}, $self->required( $_->[0] ), _arguments( $row, @$_ ) ] } @$steps;
}

sub _arguments ( $row, $operation, $key, @rest ) {
    return [ $key, value_of( $row, $rest[0] ) ]                     if $STORES{$operation};
    return $key                                                     if $operation eq 'get_many';
    return [ map { [ $_->[0], value_of( $row, $_->[1] ) ] } @$key ] if $operation eq 'set_many';
    return [ $key, @rest ];
}

# Returns a call. Dies if the client has none of this name.
sub required ( $self, $name ) {
    return $self->{$name} // PinyonBench::CannotDo->throw( 'no ' . $name =~ tr/_/ /r );
}

# Returns the value that a step's text stands for: a reference to an empty array, or the text's bytes, repeated to the row's
# length.
sub value_of ( $row, $text ) {
    return [] if ( $row->{kind} // 'bytes' ) eq 'object';
    my $length = $row->{length} or return $text;
    return substr $text x ( $length / length($text) + 1 ), 0, $length;
}

1;
