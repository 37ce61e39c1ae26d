package PinyonBench::WrongResult;

# What is thrown if a reply of the client was wrong.

use v5.36;
use overload '""' => sub ( $self, @ ) { $self->{reason} }, fallback => 1;

# As many characters of a value are in a message.
use constant SHOWN => 40;

sub throw ( $class, $reason ) {
    die bless {reason => "WrongResult: $reason"}, $class;
}

# Throws it, with what was done with a key, its reply and the right one.
sub of ( $class, $what, $key, $reply, $wanted ) {
    return $class->throw( join q{ }, $what, _short($key), 'answered', _short($reply), 'instead of', _short($wanted) );
}

sub _short ($value) {
    return 'nothing' if !defined $value;
    my $text = ref $value eq 'HASH' ? 'keys ' . join( q{,}, sort keys %$value ) : ref $value ? ref $value : "'$value'";
    return length $text <= SHOWN ? $text : substr( $text, 0, SHOWN - 3 ) . '...';
}

1;
