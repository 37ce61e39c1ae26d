package Pinyon::Cached;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Hash::Util::FieldHash qw(fieldhash);
use Scalar::Util          qw(reftype);

use Pinyon::Making ();

# What is known of each: the client, the sub, what makes keys, and the options of get_or_set. An object is the sub to call.
fieldhash my %about;

sub new {
    my ( $class, $client, $sub, %options ) = @_;
    if ( ( reftype( $sub // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw(
            'cached takes a reference to a sub and its key, as in cached(sub { … }, key => "product:{0}")');
    }
    my $key_of = _key_of( delete $options{key} );
    Pinyon::Making->new( $client, 'key', %options );    # refuses what get_or_set refuses
    my $self = bless sub {
        my (@arguments) = @_;
        return $client->get_or_set( $key_of->(@arguments), sub { $sub->(@arguments) }, %options );
    }, $class;
    $about{$self} = { client => $client, sub => $sub, key_of => $key_of, options => \%options };
    return $self;
}

# Returns a sub that makes the key of a call from its arguments.
sub _key_of {
    my ($key) = @_;
    return $key if ( reftype( $key // q{} ) // q{} ) eq 'CODE';
    if ( !defined $key || ref $key || $key eq q{} ) {
        Pinyon::Error::Usage->throw('cached needs a key, such as "product:{0}", or a sub that makes it of the arguments');
    }
    my @parts;
    while ( $key =~ /\G(?:([^{}]+)|([{}])\g2|[{]([0-9]+)[}]|(.))/gs ) {
        my ( $text, $brace, $number, $wrong ) = ( $1, $2, $3, $4 );
        if ( defined $wrong ) {
            Pinyon::Error::Usage->throw(
                qq["$key" is no key: an argument is a number, as in {0}, and a brace itself is written twice]);
        }
        push @parts, defined $number ? \$number : $text // $brace;
    }
    return sub {
        my (@arguments) = @_;
        return join q{}, map { ref $_ ? _argument( $key, ${$_}, \@arguments ) : $_ } @parts;
    };
}

sub _argument {
    my ( $key, $number, $arguments ) = @_;
    my $argument = $arguments->[$number];
    Pinyon::Error::Usage->throw("the call has no argument $number, which the key $key needs") if !defined $argument;
    return $argument;
}

sub key {
    my ( $self, @arguments ) = @_;
    return scalar $about{$self}{key_of}->(@arguments);
}

sub invalidate {
    my ( $self, @arguments ) = @_;
    return $about{$self}{client}->delete( $self->key(@arguments) );
}

sub peek {
    my ( $self, @arguments ) = @_;
    return $about{$self}{client}->get( $self->key(@arguments) );
}

sub refresh {
    my ( $self, @arguments ) = @_;
    my ( $client, $sub, $options ) = @{ $about{$self} }{qw(client sub options)};

    # It waits for the sub whatever the options say, so it works where nothing can go on behind a caller.
    return $client->_refreshed(
        $self->key(@arguments), sub { $sub->(@arguments) }, %{$options},
        soft_timeout => undef,
        refresh      => 'wait'
    );
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Cached - a sub whose results are cached

=head1 SYNOPSIS

    use Pinyon;

    my $cache   = Pinyon::Cache->new( servers => '127.0.0.1:11211' );
    my $product = $cache->cached(
        sub {
            my ($id) = @_;
            return { name => "product $id" };    # slow, from a database
        },
        key   => 'product:{0}',
        ttl   => 60,
        stale => 30,
    );
    say $product->(7)->{name};                   # product 7
    $product->invalidate(7);

=head1 DESCRIPTION

C<cached> of a L<client|Pinyon::Cache> returns a reference to a sub, which is called as the sub that was given. It returns the
result from the cache. If it is not there, C<get_or_set> has one caller run the sub. A result of undef is cached like any other.

The reference is an object, too. Each method takes the arguments of the sub, and concerns the result for these arguments. In an
event loop, all but C<key> return what the methods of the client return there: a condvar, a future or a promise.

=head1 METHODS

=head2 key(@arguments)

Returns the key of the result, without the client's namespace.

=head2 invalidate(@arguments)

Deletes the result, and returns whether there was one. The next call runs the sub; a call that is under way stores nothing.

=head2 refresh(@arguments)

Runs the sub, stores its result in place of what is there, and returns it. Until then, others get the old result. If the sub dies,
C<refresh> dies with the same error, and the old result stays. Calls that began before the result was stored cannot overwrite it. Of
several refreshes at the same time, the one that stores last counts.

=head2 peek(@arguments)

Returns the result from the cache, or undef. The sub does not run.

=for Pod::Coverage new

=cut
