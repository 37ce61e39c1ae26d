package Ways;

# The ways of waiting that play the scenarios. A way says which scenarios it plays, makes clients, carries out one call
# (`wait_for`), and several at the same time (`together`), which return what is wrong.

use 5.016;
use strict;
use warnings;

use Config;

use Pinyon ();

# Programs that wait, with threads where calls are to be made at the same time.
{

    package Ways::Blocking;

    sub new { return bless {}, shift }

    sub plays {
        my ( $self, $scenario ) = @_;
        return 0 if $scenario->{shared}     || ( $ENV{ONLY} && $scenario->{protocol} ne $ENV{ONLY} );
        return $Config::Config{useithreads} || !grep { $_->{together} } @{ $scenario->{calls} };
    }

    sub cache {
        my ( $self, @settings ) = @_;
        return Pinyon::Cache->new(@settings);
    }

    sub locks {
        my ( $self, @settings ) = @_;
        return Pinyon::Locks->new(@settings);
    }

    sub wait_for {
        my ( $self, $call ) = @_;
        return scalar $call->();
    }

    sub together {
        my ( $self, @calls ) = @_;
        require threads;
        return map { $_->join } map { threads->create($_) } @calls;
    }
}

1;
