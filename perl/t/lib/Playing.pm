package Playing;

# Plays the scenarios of scenarios/: a scripted faulty server, and what every client must make of it. A way of waiting
# (see Ways) says how a call is made and how calls are made at the same time; everything else is the same for all.

use 5.016;
use strict;
use warnings;

use Exporter         qw(import);
use Fcntl            qw(:flock);
use File::Temp       ();
use IO::Socket::INET ();
use IPC::Open2       qw(open2);
use JSON::PP         ();
use POSIX            ();
use Scalar::Util     qw(blessed);
use Time::HiRes      qw(sleep time);

use Pinyon  ();
use Servers qw(root server);

our @EXPORT_OK = qw(play_all);

# Seconds by which a call may be late, on slow machines too. Every fault lasts longer.
use constant LATE => 10;

# Processes that play at the same time. They mostly wait.
use constant AT_ONCE => 24;

use constant PASSWORD => 'correct-horse';

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# Plays all scenarios that `way` can play; returns how many there were, and what went wrong.
sub play_all {
    my ($way)     = @_;
    my $servers   = _real_servers();
    my @options   = map { ( "--$_", $servers->{$_}{address} ) } sort keys %{$servers};
    my $folder    = root() . '/scenarios';
    my $pid       = open2( my $output, my $input, 'python3', "$folder/server.py", @options, glob "$folder/data/*.json" );
    my @scenarios = grep { $way->plays($_) } @{ $json->decode( scalar <$output> ) };
    my $lock      = File::Temp->new;
    my @players;

    for my $number ( 0 .. AT_ONCE - 1 ) {
        pipe my $reader, my $writer or die "pipe: $!";
        my $child = fork // die "fork: $!";
        if ( !$child ) {
            open my $own_lock, '>>', $lock->filename or die "lock: $!";
            my $control = { input => $input, output => $output, lock => $own_lock };
            for ( my $index = $number; $index < @scenarios; $index += AT_ONCE ) {
                my $scenario = $scenarios[$index];
                my $wrong    = eval { _new( $way, $control, $scenario )->_play; 1 } ? undef : $@;
                print {$writer} "$scenario->{name}: $wrong\n" if defined $wrong;
            }
            close $writer;
            POSIX::_exit(0);
        }
        close $writer;
        push @players, [ $child, $reader ];
    }
    my @wrong;
    for (@players) {
        my ( $child, $reader ) = @{$_};
        push @wrong, <$reader>;
        waitpid $child, 0;
        push @wrong, "a player ended with $?" if $?;
    }
    close $input;
    waitpid $pid, 0;
    $_->stop for values %{$servers};
    return ( scalar @scenarios, @wrong );
}

# A memcached and a Redis, and the same with a login.
sub _real_servers {
    my $users     = File::Temp->new( UNLINK => 0 );
    my @memcached = ( 'memcached', '-u', scalar getpwuid($>), qw(-l 127.0.0.1 -p PORT -U 0) );
    my @redis     = ( qw(redis-server --bind 127.0.0.1 --port PORT --save), q{}, qw(--dir FOLDER) );
    print {$users} "app:@{[PASSWORD]}\n";
    close $users;
    my %servers = (
        memcached         => server(@memcached),
        'memcached-login' => server( @memcached, '-Y', $users->filename ),
        redis             => server(@redis),
        'redis-login'     => server(@redis),
    );
    unlink $users->filename;
    my $guarded = IO::Socket::INET->new( PeerAddr => $servers{'redis-login'}{address} ) or die "redis: $!";

    for my $command ( "ACL SETUSER app on >@{[PASSWORD]} +\@all ~* &*", "CONFIG SET requirepass @{[PASSWORD]}" ) {
        print {$guarded} "$command\r\n";
        my $answer = <$guarded>;
        die "redis: $answer" if $answer !~ /\A[+]OK/;
    }
    return \%servers;
}

sub _new {
    my ( $way, $control, $scenario ) = @_;
    my $self = bless { way => $way, control => $control, scenario => $scenario, address => $scenario->{address} }, __PACKAGE__;
    $self->{is_cache} = $scenario->{protocol} eq 'memcached';
    my %settings =
        map { defined $scenario->{client}{$_} ? ( $_ => $scenario->{client}{$_} ) : () } keys %{ $scenario->{client} };
    $self->{client} =
          $self->{is_cache}
        ? $way->cache( servers => [ $self->{address} ], %settings )
        : $way->locks( "redis://$self->{address}", %settings );
    return $self;
}

sub _play {
    my ($self) = @_;
    $self->_step($_) for @{ $self->{scenario}{calls} };
    $self->_heal;
    my @afterwards =
        $self->{is_cache}
        ? (
        { call => [qw(set after right)],               returns => 1 },
        { call => [qw(get after)],                     returns => 'right' },
        { call => [ 'get_many', [qw(after missing)] ], returns => { after => 'right' } },
        )
        : ( { call => [qw(execute ECHO right)], returns => 'right' }, { call => [ 'try_lock', "after $self->{address}" ] } );
    $self->_call( { %{$_}, eventually => 1 } ) for @afterwards;
    $self->_check_report;
    return;
}

sub _step {
    my ( $self, $step ) = @_;
    return $self->_together( $step->{together} )          if $step->{together};
    return $self->{way}->pause( $step->{wait_ms} / 1000 ) if $step->{wait_ms};
    return $self->_heal                                   if ( $step->{server} // q{} ) eq 'heal';
    return $self->_call($step);
}

sub _together {
    my ( $self, $steps ) = @_;
    my @wrong = $self->{way}->together(
        map {
            my $step = $_;
            sub {
                eval { $self->_step($step); 1 } ? undef : "$@";
            }
        } @{$steps}
    );
    for (@wrong) {
        die $_ if defined $_;
    }
    return;
}

sub _call {
    my ( $self, $step )      = @_;
    my ( $name, @arguments ) = @{ $step->{call} };
    my $give_up = time + Servers::GENEROUS;
    while (1) {
        my $begun = time;
        my $value;
        my $error = eval {
            $value = $self->{way}->wait_for( sub { $self->_use( $name, @arguments ) } );
            1;
        } ? undef : $@;
        die $error if defined $error && !( blessed $error && $error->isa('Pinyon::Error') );
        my $limit = LATE;
        $limit += $self->{scenario}{client}{$_} // 0
            for $self->{is_cache} ? 'timeout' : qw(timeout command_timeout connect_timeout);
        if ($error) {
            $self->_check_values( $error->partial );
            if ( $step->{eventually} && time < $give_up ) {
                $self->{way}->pause(0.02);
                next;
            }
            $self->_check_error( $step, $error );
        }
        else {
            $self->_check_values($value);
            _wrong( $step, 'returned ' . _shown($value) )
                if $step->{raises} || exists $step->{returns} && !_same( $value, $step->{returns} );
        }
        _wrong( $step, 'took too long' ) if time - $begun > $limit;
        return;
    }
    return;
}

# A call in the words of every language.
sub _use {
    my ( $self, $name, @arguments ) = @_;
    my ( $client, $way ) = @{$self}{qw(client way)};
    _make_texts( \@arguments );
    return $self->_use_locks( $name, @arguments )                if !$self->{is_cache};
    return $way->got( $client->get_multi( @{ $arguments[0] } ) ) if $name eq 'get_many';
    if ( $name eq 'set_many' ) {
        my $done = $way->got( scalar $client->set_multi( map { [ $_ => $arguments[0]{$_} ] } sort keys %{ $arguments[0] } ) );
        return [ grep { !$done->{$_} } sort keys %{$done} ];
    }
    if ( $name eq 'delete_many' ) {
        my $done = $way->got( scalar $client->delete_multi( @{ $arguments[0] } ) );
        return scalar grep { $_ } values %{$done};
    }
    if ( $name eq 'gat_many' ) {
        my ( $keys, $ttl ) = @arguments;
        return $way->got( scalar $client->gat_multi( $ttl, @{$keys} ) );
    }
    if ( $name eq 'touch_many' ) {
        my ( $keys, $ttl ) = @arguments;
        my $done = $way->got( scalar $client->touch_multi( map { [ $_ => $ttl ] } @{$keys} ) );
        return [ grep { $done->{$_} } @{$keys} ];
    }
    if ( $name eq 'batch' ) {
        $way->got(
            scalar $client->quiet(
                sub {
                    my ($batch) = @_;
                    for my $command (@arguments) {
                        my ( $method, @given ) = @{$command};
                        $batch->$method(@given);
                    }
                }
            )
        );
        return;
    }
    return $way->got( scalar $client->$name(@arguments) );
}

sub _use_locks {
    my ( $self, $name, @arguments ) = @_;
    my ( $client, $way ) = @{$self}{qw(client way)};
    return $way->got( scalar $client->synchronized( \@arguments, sub { $_[0]->token } ) ) if $name eq 'lock';
    if ( $name eq 'proceed' ) {
        my $is_certain = sub { $_[0]->is_certain ? 1 : 0 };
        return $way->got( scalar $client->synchronized( \@arguments, $is_certain, on_failure => 'proceed' ) );
    }
    if ( $name eq 'try_lock' ) {
        $way->got( $way->got( scalar $client->try_lock( \@arguments ) )->release );
        return;
    }
    return $way->got( scalar $client->is_locked( \@arguments ) ) if $name eq 'is_locked';
    return $way->got( scalar $client->$name(@arguments) );
}

sub _check_error {
    my ( $self, $step, $error ) = @_;
    my $password = $self->{scenario}{client}{password};
    _wrong( $step, "the password is in $error" ) if defined $password && index( "$error", $password ) >= 0;
    my $named = $step->{raises} || $step->{may_raise} || [];
    my @kinds = map { 'Pinyon::Error::' . s/Error\z//r } ref $named ? @{$named} : $named;
    if ( $error->isa('Pinyon::Error::Batch') && !grep { $_ eq 'Pinyon::Error::Batch' } @kinds ) {
        $error = $self->_failure_of( $step, $error );
    }
    _wrong( $step, 'raised ' . ref($error) . ": $error" ) if !grep { $error->isa($_) } @kinds;
    _wrong( $step, "raised $error" )                      if defined $step->{says} && $error->message !~ /$step->{says}/;
    _wrong( $step, "$error says sent=" . $error->sent )   if defined $step->{sent} && $error->sent ne $step->{sent};
    return if $error->isa('Pinyon::Error::Lock') || $error->isa('Pinyon::Error::UndecodableValue');
    if ( ( $error->server // q{} ) ne $self->{address} && index( $error->message, $self->{address} ) < 0 ) {
        _wrong( $step, "$error does not name the server" );
    }
    return if !$self->{is_cache} || $step->{call}[0] eq 'batch' || !defined $error->command;
    my $command = $step->{call}[0] =~ s{\Agets|_many\z}{$& eq "gets" ? "get" : q{}}er;
    if ( $error->command ne $command || index( $error->message, "$self->{address}: $command: " ) != 0 ) {
        _wrong( $step, "$error does not name the command $command" );
    }
    return;
}

sub _failure_of {
    my ( $self, $step, $error ) = @_;
    my ( $failure, @others ) = $error->failures;
    _wrong( $step, scalar(@others) + 1 . ' failures' ) if @others;
    my ( $command, $key ) = @{ $step->{call}[1] };
    _wrong( $step, "$error" ) if $failure->{command} ne $command || $failure->{key} ne $key;
    return $failure->{error}                                     || _wrong( $step, $failure->{reason} );
}

sub _check_values {
    my ( $self, $value ) = @_;
    my @inner = ref $value eq 'HASH' ? values %{$value} : ref $value eq 'ARRAY' ? @{$value} : ();
    for my $each ( $value, @inner ) {
        next                              if !defined $each;
        _wrong( $each, 'was handed out' ) if grep { _same( $each, $_ ) } @{ $self->{scenario}{never} };
    }
    return;
}

sub _heal {
    my ($self) = @_;
    return $self->{report} ||= _ask( $self->{control}, "heal $self->{scenario}{name}" );
}

# One process at a time asks the scripted server, byte by byte: nothing of another's answer is taken.
sub _ask {
    my ( $control, $command ) = @_;
    flock $control->{lock}, LOCK_EX or die "lock: $!";
    syswrite $control->{input}, "$command\n";
    my $line = q{};
    while ( $line !~ /\n\z/ ) {
        sysread $control->{output}, $line, 1, length $line or die 'the scripted server has ended';
    }
    flock $control->{lock}, LOCK_UN or die "lock: $!";
    return $json->decode($line);
}

# What the server saw until it was healed.
sub _check_report {
    my ($self) = @_;
    my ( $report, $after ) = ( $self->{report}, $self->{scenario}{after} || {} );
    _wrong( $report->{unexpected}, 'does not match its step' ) if @{ $report->{unexpected} };
    _wrong( $report, 'connections' ) if defined $after->{connections} && $after->{connections} != $report->{connections};
    return if !$after->{requests};
    for my $request ( @{ $report->{requests} } ) {
        _wrong( $request, 'was not to be sent' ) if !grep { $request =~ /$_/ } @{ $after->{requests} };
    }
    return;
}

sub _same {
    my ( $value, $expected ) = @_;
    return !defined $value       if !defined $expected;
    return 0                     if !defined $value;
    return !$value == !$expected if JSON::PP::is_bool($expected);
    if ( ref $expected eq 'ARRAY' ) {
        return 0 if ref $value ne 'ARRAY' || @{$value} != @{$expected};
        return !grep { !_same( $value->[$_], $expected->[$_] ) } 0 .. $#{$expected};
    }
    if ( ref $expected eq 'HASH' ) {
        return 0 if ref $value ne 'HASH' || keys %{$value} != keys %{$expected};
        return !grep { !exists $value->{$_} || !_same( $value->{$_}, $expected->{$_} ) } keys %{$expected};
    }
    return !ref $value && "$value" eq "$expected";
}

# What JSON has are texts, also where they are ASCII.
sub _make_texts {
    my ($data) = @_;
    for my $item ( ref $data eq 'HASH' ? values %{$data} : @{$data} ) {
        if    ( ref $item )                             { _make_texts($item) }
        elsif ( defined $item && $item !~ /\A-?\d+\z/ ) { utf8::upgrade($item) }
    }
    return;
}

sub _shown {
    return eval { $json->allow_blessed->encode( $_[0] ) } // "$_[0]";
}

sub _wrong {
    my ( $what, $why ) = @_;
    die _shown($what) . ": $why\n";
}

1;
