package PinyonBench::CacheModel;

# A model of a cache: a hash that predicts every reply.
#
# In a quiet row a get may overtake earlier quiet commands. So a key that the row deletes may also be absent.

use v5.36;
use PinyonBench::Calls;
use PinyonBench::WrongResult;

my %CHECKS = (
    ( map { $_ => \&_store } qw(set add replace) ),
    ( map { $_ => \&_count } qw(incr decr) ),
    get      => \&_get,
    multiget => \&_get_many,
    multiset => \&_set_many,
    delete   => \&_delete,
);

sub new ( $class, $row ) {
    my @steps = map { @{$_->{steps}} } @{$row->{phases}};
    my @unsettled = $row->{quiet} ? map { $_->[1] } grep { $_->[0] eq 'delete' } @steps : ();
    return bless {row => $row, items => {}, unsettled => {map { $_ => 1 } @unsettled}}, $class;
}

# Returns everything that must be stored now.
sub items ($self) {
    return $self->{items};
}

# Returns whether a step's reply is not known in this row.
sub is_quiet ( $self, $step ) {
    return $self->{row}{quiet} && $step->[0] =~ /\A(?:set|add|replace|delete)\z/;
}

# Applies one step. Dies if its reply is wrong.
sub check ( $self, $step, $reply ) {
    my ( $operation, @arguments ) = @$step;
    $CHECKS{$operation}->( $self, $reply, $operation, @arguments );
    return;
}

sub _store ( $self, $reply, $operation, $key, $text ) {
    my $allowed = $operation eq 'set' || ( $operation eq 'add' ) == !exists $self->{items}{$key};
    $self->{items}{$key} = PinyonBench::Calls::value_of( $self->{row}, $text ) if $allowed;
    _compare( $operation, $key, $reply ? 1 : 0, $allowed ? 1 : 0 ) if !$self->{row}{quiet};
    return;
}

sub _get ( $self, $reply, $, $key ) {
    return if !defined $reply && $self->{unsettled}{$key};
    return _compare( 'get', $key, $reply, $self->{items}{$key} );
}

sub _get_many ( $self, $reply, $, $keys ) {
    my %wanted = map { $_ => $self->{items}{$_} } grep { exists $self->{items}{$_} } @$keys;
    my $right  = ref $reply eq 'HASH' && keys %$reply == keys %wanted;
    for my $key ( sort keys %wanted ) {
        $right &&= exists $reply->{$key};
        _compare( 'get of many:', $key, $reply->{$key}, $wanted{$key} ) if $right;
    }
    return $right || PinyonBench::WrongResult->of( 'get of many:', $keys->[0], $reply, \%wanted );
}

sub _set_many ( $self, $reply, $, $pairs ) {
    $self->{items}{$_->[0]} = PinyonBench::Calls::value_of( $self->{row}, $_->[1] ) for @$pairs;
    my @stored = grep { $reply->{$_->[0]} } ref $reply eq 'HASH' ? @$pairs : ();
    return _compare( 'set of many:', $pairs->[0][0], scalar @stored, scalar @$pairs );
}

sub _delete ( $self, $reply, $, $key ) {
    my $was_stored = defined delete $self->{items}{$key};
    return _compare( 'delete', $key, $reply ? 1 : 0, 1 ) if $was_stored && !$self->{row}{quiet};
    return;
}

sub _count ( $self, $reply, $operation, $key, $delta, $initial = undef ) {
    my $items = $self->{items};
    if ( exists $items->{$key} ) {
        $items->{$key} += $operation eq 'incr' ? $delta : -$delta;
        $items->{$key} = 0 if $items->{$key} < 0;
    }
    elsif ( defined $initial ) {
        $items->{$key} = $initial;
    }

    # A true zero, `0E0`, is a number.
    return _compare( $operation, $key, $reply ? $reply + 0 : $reply, $items->{$key} );
}

sub _compare ( $what, $key, $reply, $wanted ) {
    return is_same( $reply, $wanted ) || PinyonBench::WrongResult->of( $what, $key, $reply, $wanted );
}

# Returns whether two values are the same: both missing, both empty arrays, or the same text.
sub is_same ( $one, $other ) {
    return !defined $one          && !defined $other  if !defined $one       || !defined $other;
    return ref $one eq ref $other && @$one == @$other if ref $one eq 'ARRAY' || ref $other eq 'ARRAY';
    return $one eq $other;
}

1;
