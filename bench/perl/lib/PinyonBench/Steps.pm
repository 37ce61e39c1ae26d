package PinyonBench::Steps;

# Verifies and times a client on rows of steps.

use v5.36;
use PinyonBench::CacheModel;
use PinyonBench::Clock qw(timed);
use PinyonBench::CannotDo;

sub new ( $class, $client ) {
    return bless {client => $client}, $class;
}

# Runs the row once against a model of a cache, then reads everything back with a new client.
sub verify ( $self, $row ) {
    my $model = PinyonBench::CacheModel->new($row);
    $self->_with_client( $row, 0, sub ($calls) { _check( $model, $calls, $row->{prepare}, $row ) } );
    $self->_with_client(
        $row,
        $row->{quiet},
        sub ($calls) {
            _within_batch( $calls, $row, sub ($batch) { _check_phases( $model, $batch, $row ) } );
        }
    );
    $self->_with_client( $row, 0, sub ($calls) { _read_back( $model, $calls, $row ) } );
    return {};
}

# Prepares the servers, then times the row's phases on a new client.
sub time ( $self, $row ) {
    $self->_with_client( $row, 0, sub ($calls) { _repeat( [ $calls->bound( $row->{prepare}, $row ) ], 1 ) } );
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

sub _check_phases ( $model, $calls, $row ) {
    for my $phase ( @{$row->{phases}} ) {
        _check( $model, $calls, $phase->{steps}, $row ) for 1 .. $phase->{iterations};
    }
    return;
}

sub _check ( $model, $calls, $steps, $row ) {
    my @bound = $calls->bound( $steps, $row );
    for my $number ( keys @bound ) {
        my ( $step, $reply ) = $steps->[$number];
        my ( $client, $code, $arguments ) = @{$bound[$number]};

        # Some clients await no reply only if none is wanted.
        if   ( $model->is_quiet($step) ) { $client->$code(@$arguments) }
        else                             { $reply = $client->$code(@$arguments) }
        $model->check( $step, $reply );
    }
    return;
}

sub _read_back ( $model, $calls, $row ) {
    my %counters =
        map { $_->[1] => 1 } grep { $_->[0] =~ /\A(?:incr|decr)\z/ } map { @{$_->{steps}} } @{$row->{phases}};
    my ( $client, $get ) = @$calls{qw(client get)};
    for my $key ( grep { !$counters{$_} } sort keys %{$model->items} ) {
        my $reply = $client->$get($key);
        $model->check( [ get => $key ], $reply );
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
