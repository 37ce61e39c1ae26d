package PinyonBench::Steps;

# Does rows of steps.

use v5.36;
use Cpanel::JSON::XS   ();
use PinyonBench::Clock qw(timed);
use PinyonBench::CannotDo;

# The calls of which no reply is awaited in quiet rows.
my %TELLS = map { $_ => 1 } qw(set add replace delete);

# How replies are told; that of a counter may be a true zero, `0E0`.
my %TOLD = (
    (
        map {
            $_ => sub ($stored) { return $stored ? Cpanel::JSON::XS::true : Cpanel::JSON::XS::false }
        } keys %TELLS
    ),
    (
        map {
            $_ => sub ($count) { return length( $count // q{} ) ? $count + 0 : $count }
        } qw(incr decr incr_or_create)
    ),
    set_many => sub ($stored) {
        return scalar grep {$_} values %$stored;
    },
);

sub new ( $class, $client ) {
    return bless {client => $client}, $class;
}

# Does the row's phases on a new client: times them, or returns every reply.
sub play ( $self, $row ) {
    return {replies => $self->_replies($row)} if $row->{check};
    return $row->{connect} eq 'inside' ? $self->_time_with_connect($row) : $self->_time_warm($row);
}

sub _with_client ( $self, $row, $quiet, $work ) {
    my $calls  = $self->{client}->connect( $row->{servers}, $row->{kind}, $quiet );
    my $done   = eval { $work->($calls); 1 };
    my $error  = $@;
    my $closed = eval { $calls->{close}->(); 1 };
    die $error if !$done;
    die $@     if !$closed;
    return;
}

sub _within_batch ( $calls, $row, $work ) {
    return $work->($calls) if !$row->{quiet};
    $calls->{quietly} // PinyonBench::CannotDo->throw('no quiet mode');
    my %keys = map { $_->[1] => 1 } map { @{$_->{steps}} } @{$row->{phases}};
    return $calls->{quietly}->( $work, sort keys %keys );
}

sub _replies ( $self, $row ) {
    my @replies;
    $self->_with_client(
        $row,
        $row->{quiet},
        sub ($calls) {
            _within_batch( $calls, $row, sub ($batch) { _tell( $batch, $row, \@replies ) } );
        }
    );
    return \@replies;
}

# Does the phases' steps, and adds their replies to a list, as JSON knows them.
sub _tell ( $calls, $row, $replies ) {
    for my $phase ( @{$row->{phases}} ) {
        my @bound = $calls->bound( $phase->{steps}, $row );
        for my $number ( ( keys @bound ) x $phase->{iterations} ) {
            my $operation = $phase->{steps}[$number][0];
            my ( $client, $code, $arguments ) = @{$bound[$number]};
            my $reply;

            # Some clients await no reply only if none is wanted.
            if   ( $row->{quiet} && $TELLS{$operation} ) { $client->$code(@$arguments) }
            else                                         { $reply = $client->$code(@$arguments) }
            push @$replies, ( $TOLD{$operation} // sub ($found) {$found} )->($reply);
        }
    }
    return;
}

sub _time_with_connect ( $self, $row ) {
    return timed(
        sub {
            $self->_with_client(
                $row,
                $row->{quiet},
                sub ($calls) {
                    _within_batch( $calls, $row, sub ($batch) { _run_phases( $batch, $row ) } );
                }
            );
        }
    );
}

sub _run_phases ( $calls, $row ) {
    my $repeat = $row->{quiet} ? \&_repeat_quietly : \&_repeat;
    $repeat->( [ $calls->bound( $_->{steps}, $row ) ], $_->{iterations} ) for @{$row->{phases}};
    return;
}

sub _time_warm ( $self, $row ) {
    my $timing;
    $self->_with_client(
        $row, 0,
        sub ($calls) {
            my @work = map { [ [ $calls->bound( $_->{steps}, $row ) ], $_->{iterations} ] } @{$row->{phases}};
            _repeat( $_->[0], $row->{warmup} ) for @work;
            $timing = timed( sub { _repeat(@$_) for @work } );
        }
    );
    return $timing;
}

# The reply is assigned, so that no client may leave it out.
sub _repeat ( $steps, $times ) {
    my $reply;
    if ( @$steps == 1 ) {
        my ( $client, $code, $arguments ) = @{$steps->[0]};
        $reply = $client->$code(@$arguments) for 1 .. $times;
        return;
    }
    for ( 1 .. $times ) {
        for my $step (@$steps) {
            my ( $client, $code, $arguments ) = @$step;
            $reply = $client->$code(@$arguments);
        }
    }
    return;
}

# In void context, so that clients may leave out replies.
sub _repeat_quietly ( $steps, $times ) {
    for ( 1 .. $times ) {
        for my $step (@$steps) {
            my ( $client, $code, $arguments ) = @$step;
            $client->$code(@$arguments);
        }
    }
    return;
}

1;
