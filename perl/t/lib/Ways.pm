package Ways;

# The ways of waiting that play the scenarios. A way says which scenarios it plays, makes clients, carries out one call
# (`wait_for`), and several at the same time (`together`), which return what is wrong.

use 5.016;
use strict;
use warnings;

use Config;

use Pinyon ();

# Servers whose answers are written for one line of `get` with all keys. Many requests of the C interface are requests of
# their own, which join such lines only from the fourth on. Its own tests leave out the same.
my $answer_a_line = join q{|},
    (
    'a huge length is refused before memory is taken for it: get_many',
    'classic text behind a proxy',
    'a proxy answers',
    'an error in the middle of many values',
    'one of many values that is cut at a byte: twenty keys',
    'many values that drip',
    );

sub is_about_lines {
    my ($scenario) = @_;
    return $scenario->{name} =~ /\A(?:$answer_a_line)/ && grep { ref $_->{call} && $_->{call}[0] eq 'get_many' }
        @{ $scenario->{calls} };
}

# Programs that wait, with threads where calls are to be made at the same time.
{

    package Ways::Blocking;

    sub new { return bless {}, shift }

    sub plays {
        my ( $self, $scenario ) = @_;
        return 0 if $scenario->{shared}     || Ways::is_about_lines($scenario);
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
