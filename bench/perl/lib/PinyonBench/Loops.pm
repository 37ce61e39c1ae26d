package PinyonBench::Loops;

# One call after another, each reply compared: what blocking calls and coroutines have in common.

use v5.36;
use Exporter           qw(import);
use PinyonBench::Clock qw(now);
use PinyonBench::WrongResult;

our @EXPORT_OK = qw(do_each compare);

# Takes items from a list until it is empty.
sub do_each ( $calls, $operation, $items, $seconds = undef ) {
    return _clock_each( $calls, $operation, $items, $seconds ) if $seconds;
    my ( $client, $code ) = ( $calls->{client}, $calls->required($operation) );
    if ( $operation eq 'set' ) {
        while ( my $item = shift @$items ) {
            $client->$code( $item->[0], $item->[1] ) or compare( 'set', $item, 0 );
        }
        return;
    }
    while ( my $item = shift @$items ) {
        my $reply  = $client->$code( $item->[0] );
        my $wanted = $item->[1];
        compare( 'get', $item, $reply ) if !defined $reply || !defined $wanted || $reply ne $wanted;
    }
    return;
}

sub _clock_each ( $calls, $operation, $items, $seconds ) {
    my ( $client, $code ) = ( $calls->{client}, $calls->required($operation) );
    while ( my $item = shift @$items ) {
        my $start = now();
        my $reply = $operation eq 'set' ? $client->$code( $item->[0], $item->[1] ) : $client->$code( $item->[0] );
        push @$seconds, now() - $start;
        compare( $operation, $item, $reply );
    }
    return;
}

# Dies unless a reply is the one that an item's operation must have.
sub compare ( $operation, $item, $reply ) {
    my ( $key, $value ) = @$item;
    if ( $operation eq 'set' ) {
        return $reply ? 1 : PinyonBench::WrongResult->throw("set $key did not store");
    }
    return defined $reply == defined $value && ( $reply // q{} ) eq ( $value // q{} )
        || PinyonBench::WrongResult->of( 'get', $key, $reply, $value );
}

1;
