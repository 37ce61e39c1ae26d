package PinyonBench::Client::Pinyon;

# Pinyon itself, in the class for the concurrency model.

use v5.36;
use Pinyon ();
use PinyonBench::Calls;

# The module to load for each model, and its class of caches.
my %CLASSES = (
    perl     => [qw(Pinyon::Cache Pinyon::Cache)],
    coro     => [qw(Pinyon::Coro Pinyon::Coro::Cache)],
    anyevent => [qw(Pinyon::AnyEvent Pinyon::AnyEvent::Cache)],
    future   => [qw(Pinyon::Future Pinyon::Future::Cache)],
);

sub new ( $class, $model ) {
    my ( $module, $library ) = @{$CLASSES{$model->name}};
    require( $module =~ s{::}{/}gr . '.pm' );
    return bless {model => $model, library => $library}, $class;
}

sub version ($self) {
    return join ', ', Pinyon->VERSION, $self->{model}->version;
}

sub configuration ($) {
    return 'defaults; objects by Storable; quiet: its quiet block';
}

sub connect ( $self, $servers, $kind, $ ) {
    my $client = $self->{library}->new(
        servers => $servers,
        $self->{model}->can('loop') ? ( loop       => $self->{model}->loop ) : (),
        $kind eq 'object'           ? ( serializer => 'storable' )           : (),
    );
    my $names = {get => 'get', set => 'set'};
    return PinyonBench::Calls->of( $client, $names, close => sub { $client->close } ) if $self->{model}->name ne 'perl';
    return PinyonBench::Calls->of(
        $client,
        {%$names, ( map { $_ => $_ } qw(add replace delete incr decr) ), get_many => 'get_multi', set_many => 'set_multi'},
        incr_or_create => sub ( $,     $key, $delta, $initial ) { return $client->incr( $key, $delta, initial => $initial ) },
        quietly        => sub ( $work, @ ) {
            $client->quiet( sub ($batch) { $work->( _quiet_calls( $client, $batch ) ) } );
        },
        close => sub { $client->close },
    );
}

# Gets go through the client while the batch is open.
sub _quiet_calls ( $client, $batch ) {
    my $get = $client->can('get');
    return PinyonBench::Calls->of(
        $batch,
        {map { $_ => $_ } qw(set add replace delete)},
        get => sub ( $, $key ) { return $client->$get($key) },
    );
}

1;
