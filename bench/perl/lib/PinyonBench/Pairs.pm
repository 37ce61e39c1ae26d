package PinyonBench::Pairs;

# Does rows of pairs, by coroutines or chains of callbacks that share one client. Keeps the client of each server between
# requests.

use v5.36;
use POSIX qw(ceil);
use PinyonBench::Calls;
use PinyonBench::Clock qw(timed);

sub new ( $class, $client, $model ) {
    return bless {client => $client, model => $model, connected => {}}, $class;
}

# Times all pairs, then some of them once more with a clock around each call.
sub play ( $self, $row ) {
    my $items     = _items($row);
    my $operation = $row->{operation};
    $self->_do( $operation, [ @$items[ 0 .. $row->{warmup} - 1 ] ], $row );
    my @passes = map { _work( $items, $row ) } 1 .. $row->{passes};
    my $timing = timed( sub { $self->_together( $operation, $_, $row ) for @passes } );
    my @seconds;
    $self->_do( $operation, [ @$items[ 0 .. $row->{clocked} - 1 ] ], $row, \@seconds );
    return {%$timing, seconds => \@seconds};
}

sub _do ( $self, $operation, $items, $row, $seconds = undef ) {
    return $self->_together( $operation, _work( $items, $row ), $row, $seconds );
}

sub _together ( $self, $operation, $work, $row, $seconds = undef ) {
    my $calls = $self->{connected}{$row->{server}} //= $self->{client}->connect( [ $row->{server} ], 'bytes', 0 );
    my $model = $self->{model};
    return $model->behind_semaphore( $calls, $operation, $work, $row->{concurrency}, $seconds )
        if $row->{order} eq 'semaphore';
    return $model->in_loops( $calls, $operation, $work, $seconds );
}

sub _items ($row) {
    my %values;
    return [ map { [ $_->[0], defined $_->[1] ? $values{$_->[1]} //= PinyonBench::Calls::value_of( $row, $_->[1] ) : undef ] }
            @{$row->{pairs}} ];
}

# Returns what each coroutine takes its items from: its own chunk, or one list that all share. For a coroutine per item, the
# items.
sub _work ( $items, $row ) {
    return [@$items] if $row->{order} eq 'semaphore';
    my $many = $row->{concurrency} or return [ [@$items] ];
    if ( $row->{order} eq 'shared' ) {
        my $all = [@$items];
        return [ ($all) x ( $many < @$items ? $many : @$items ) ];
    }
    my $size  = ceil( @$items / $many ) || 1;
    my @items = @$items;
    my @parts;
    push @parts, [ splice @items, 0, $size ] while @items;
    return \@parts;
}

1;
