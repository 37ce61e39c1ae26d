package Pinyon::Loop::Many;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(blessed);

use Pinyon ();

my @METHODS = qw(get gets gat gats set add replace append prepend cas delete touch incr decr);
my %NUMBER  = ( remove => Pinyon::_number_of('delete'), map { $_ => Pinyon::_number_of($_) } @METHODS );
my %READS   = map { $_ => 1 } qw(get gets gat gats);
my %STORES  = map { $_ => 1 } qw(set add replace cas);
my %BY_KEY  = map { $_ => 1 } qw(get gets delete remove incr decr);

sub methods {
    return map { "${_}_multi" } sort keys %NUMBER;
}

# One operation for each of the calls.
sub new {
    my ( $class, $method, $arguments ) = @_;
    my ($name) = $method =~ /\A(\w+)_multi\z/;
    my $self   = bless { name => $name, number => $NUMBER{$name}, results => {}, errors => [] }, $class;
    $self->{calls}  = $self->_calls( @{$arguments} );
    $self->{values} = [ (undef) x @{ $self->{calls} } ];
    return $self;
}

# Begins to read all keys at once. Returns undef if they are not read, or not that simply.
sub begin_reading {
    my ( $self, $client, $callback ) = @_;
    return if $self->{name} ne 'get' && $self->{name} ne 'gets' || !@{ $self->{calls} };
    return $client->_begin_reading( [ map { $_->[0] } @{ $self->{calls} } ], $self->{name} eq 'gets', $callback );
}

# Takes what it has read: the results by key, and errors.
sub take_read {
    my ( $self, $read, $error ) = @_;
    $self->_note( undef, $error ) if defined $error;
    return                        if !$read;
    ( $self->{results}, my @errors ) = @{$read};
    $self->_note( ref $_ eq 'ARRAY' ? @{$_} : ( undef, $_ ) ) for @errors;
    return;
}

sub _calls {
    my ( $self, @arguments ) = @_;
    my $name = $self->{name};
    if ( $name eq 'gat' || $name eq 'gats' ) {
        my $ttl = shift @arguments;
        return [ map { [ $_, $ttl ] } @arguments ];
    }
    if ( $READS{$name} && ref $arguments[0] eq 'ARRAY' ) {
        my ( $keys, %options ) = @arguments;
        $self->{failed} = delete $options{failed};
        if ( %options || defined $self->{failed} && ref $self->{failed} ne 'HASH' ) {
            Pinyon::Error::Usage->throw("${name}_multi takes keys, or a reference to an array of them and failed => \\%errors");
        }
        return [ map { [$_] } @{$keys} ];
    }
    my @tags = $STORES{$name} && _end_with_tags(@arguments) ? splice @arguments, -2 : ();
    for my $argument (@arguments) {
        next if ref $argument eq 'ARRAY' || $BY_KEY{$name};
        Pinyon::Error::Usage->throw("${name}_multi takes references to arrays with the arguments of $name each");
    }
    return [ map { _with_tags( $_, @tags ) } @arguments ] if @tags;
    return [ map { ref $_ eq 'ARRAY' ? $_ : [$_] } @arguments ];
}

# The arguments of one call, with the tags of all unless it has its own.
sub _with_tags {
    my ( $call, @tags )      = @_;
    my ( undef, @arguments ) = @{$call};
    return _end_with_tags(@arguments) ? $call : [ @{$call}, @tags ];
}

sub _end_with_tags {
    my @arguments = @_;
    return @arguments > 1 && !ref $arguments[-2] && ( $arguments[-2] // q{} ) eq 'tags';
}

# Begins all of them, and calls back when all are over.
sub begin {
    my ( $class, $client, $method, $arguments, $callback ) = @_;
    my $self = $class->new( $method, $arguments );
    my $left = @{ $self->{calls} };
    my $over = sub {
        my ( $result, $error ) = $self->outcome;
        $callback->( $result, $error );
    };
    if ( !$left ) {
        $client->{loop}->later($over);
        return Pinyon::Loop::Operations->new;
    }
    my $reading = $self->begin_reading( $client, sub { $self->take_read(@_); $over->() } );
    return $reading if $reading;
    my $each = sub {
        my ($index) = @_;
        return sub {
            $self->take( $index, @_ );
            $over->() if !--$left;
        };
    };
    my @begun      = $self->begin_all( $client, [ map { $each->($_) } 0 .. $left - 1 ] );
    my $operations = Pinyon::Loop::Operations->new;
    $operations->add($_) for grep { defined } @begun;
    $left -= grep { !defined } @begun;
    $client->{loop}->later($over) if !$left;
    return $operations;
}

# Begins all of the calls, or dies if one makes no sense. Of one that cannot be sent there is an error, and no operation.
sub begin_all {
    my ( $self, $client, $callbacks ) = @_;
    my @begun = $client->_begin_many( $self->{number}, $self->{calls}, $callbacks );
    for my $index ( grep { !$begun[$_]->isa('Pinyon::Operation') } 0 .. $#begun ) {
        $self->take( $index, undef, $begun[$index] );
        $begun[$index] = undef;
    }
    return @begun;
}

sub take {
    my ( $self, $index, $value, $error ) = @_;
    if ( defined $error ) {
        $self->_note( $self->{calls}[$index][0], $error );
        return;
    }
    return if !defined $value && $READS{ $self->{name} };
    $self->{values}[$index] = $value;
    $self->{results}{ $self->{calls}[$index][0] } = $value;
    return;
}

# With `failed`, that has the error of each server, and of each key whose value cannot be read.
sub _note {
    my ( $self, $key, $error ) = @_;
    my $failed = $self->{failed};
    my $server = blessed $error && $error->can('server') ? $error->server : undef;
    if ( $failed && defined $server ) {
        $failed->{$server} //= $error;
    }
    elsif ( $failed && defined $key && defined Pinyon::Error::_unreadable($error) ) {
        $failed->{$key} = $error;
    }
    else {
        push @{ $self->{errors} }, $error;
    }
    return;
}

# The results by key, and the error, if there was one.
sub outcome {
    my ($self)  = @_;
    my $results = $self->{results};
    my $thrown  = $self->{errors}[0];
    $thrown->{partial} = $results if blessed $thrown && $thrown->isa('Pinyon::Error');
    return ( defined $thrown ? undef : $results, $thrown );
}

sub values_in_order { return @{ $_[0]{values} } }

package Pinyon::Loop::Operations;

# Several operations that are cancelled together.
sub new { return bless [], shift }

sub add {
    my ( $self, $operation ) = @_;
    push @{$self}, $operation;
    return;
}

sub cancel {
    my ($self) = @_;
    $_->cancel for splice @{$self};
    return;
}

1;
