package PinyonBench::CannotDo;

# What is thrown if the client, or the model, has no such operation.

use v5.36;
use overload '""' => sub ( $self, @ ) { $self->{reason} }, fallback => 1;

sub throw ( $class, $reason ) {
    die bless {reason => $reason}, $class;
}

1;
