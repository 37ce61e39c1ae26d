package PinyonBench::Requests;

# The loop over requests that every Perl contestant shares. A client's error is a reply too.

use v5.36;
use Cpanel::JSON::XS ();
use PinyonBench::CannotDo;
use PinyonBench::Locks;
use PinyonBench::Pairs;
use PinyonBench::Steps;

my $JSON = Cpanel::JSON::XS->new->utf8->canonical->allow_blessed;

# Answers requests until the input ends; only the first one, with the reason, where a module cannot be loaded. Returns the
# status of the program.
sub answer_all ( $client, $model ) {
    my ( $made, %harnesses );
    if ( !eval { ( $made, %harnesses ) = _made( $client, $model ); 1 } ) {
        my $reason = _said($@) =~ s/ [(](?:you may need to install|\@INC contains).*//sr;
        readline STDIN;
        _reply( {ok => Cpanel::JSON::XS::false, reason => "cannot be loaded: $reason"} );
        return 1;
    }
    while ( defined( my $line = readline STDIN ) ) {
        _reply( _answer( $made, \%harnesses, $JSON->decode($line) ) );
    }
    return 0;
}

# Returns the client, and what does its work, by the field that tells the kind of a row.
sub _made ( $client, $model ) {
    my $loaded = _loaded( Model  => $model );
    my $made   = _loaded( Client => $client )->new($loaded);
    return $made,
        pairs    => PinyonBench::Pairs->new( $made, $loaded ),
        workload => PinyonBench::Locks->new( $made, $loaded ),
        phases   => PinyonBench::Steps->new($made);
}

# Returns an error's text without the place in a program.
sub _said ($error) {
    return "$error" =~ s/ at \S+ line \d+.*//sr =~ s/\s+\z//r;
}

sub _loaded ( $kind, $name ) {
    my $module = "PinyonBench::${kind}::$name";
    require( $module =~ s{::}{/}gr . '.pm' );
    return $module;
}

sub _answer ( $client, $harnesses, $request ) {
    my $reply = eval { _done( $client, $harnesses, $request ) };
    return {ok => Cpanel::JSON::XS::true, %$reply} if $reply;
    my $error  = $@;
    my $cannot = ref $error && eval { $error->isa('PinyonBench::CannotDo') };
    return {ok => Cpanel::JSON::XS::false, reason => _said($error), $cannot ? ( cannot => Cpanel::JSON::XS::true ) : ()};
}

sub _done ( $client, $harnesses, $request ) {
    return {version => $client->version, configuration => $client->configuration} if $request->{do} eq 'describe';
    my $row = $request->{row};
    my ($kind) = grep { exists $row->{$_} } sort keys %$harnesses;
    PinyonBench::CannotDo->throw("no request '$request->{do}'") if !$kind || $request->{do} ne 'play';
    return $harnesses->{$kind}->play($row);
}

sub _reply ($message) {
    local $| = 1;
    print {*STDOUT} $JSON->encode($message), "\n" or die "the benchmark is gone: $!\n";
    return;
}

1;
