package Pinyon::Cache;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.001000';

use Scalar::Util qw(blessed reftype);

use Pinyon ();
use Pinyon::Batch ();
use Pinyon::Lease ();
use Pinyon::Making ();
use Pinyon::Settings ();

# As in handle.h.
my %FORM = ( portable => 0, json => 0, raw => 1, storable => 2 );

sub new {
    my ( $class, @arguments ) = @_;
    my %settings = Pinyon::Settings::given( $class, @arguments );
    my $self     = bless {}, $class;
    $self->{on_event} = delete $settings{on_event};
    if ( $self->{on_event} && ( reftype( $self->{on_event} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('on_event is a reference to a sub that is called with an event');
    }
    my $form = $self->_form( \%settings );
    $settings{events} = $self->{on_event} ? 1 : 0;
    $self->{servers} = delete $settings{servers} if !defined $settings{servers};
    $self->_attach( Pinyon::Settings::flat(%settings), $form, $self->{on_event} ? 1 : 0 );
    return $self;
}

# How values are stored, by the setting `serializer`.
sub _form {
    my ( $self, $settings ) = @_;
    my $serializer = delete $settings->{serializer};
    return 0 if !defined $serializer;
    if ( blessed $serializer) {
        for my $method (qw(dump load)) {
            next if $serializer->can($method);
            Pinyon::Error::Usage->throw(
                "a serializer is an object with the methods dump and load; " . ref($serializer) . " has no $method" );
        }
        $self->{serializer} = $serializer;
        return 3;
    }
    if ( ref $serializer || !exists $FORM{$serializer} ) {
        Pinyon::Error::Usage->throw(
            "serializer is 'portable', 'json', 'raw', 'storable', or an object with the methods dump and load, not '$serializer'"
        );
    }
    $settings->{serializer} = $serializer if $serializer eq 'json';
    require Storable if $serializer eq 'storable';
    return $FORM{$serializer};
}

# Called where values are stored by Perl code: returns bytes and flags.
sub _dumped {
    my ( $self, $value ) = @_;
    return $self->{serializer}->dump($value) if $self->{serializer};
    my $bytes = eval { Storable::nfreeze($value) };
    if ( !defined $bytes ) {
        my $why = $@ =~ s/ at \S+ line \d+.*//sr;
        Pinyon::Error::Unpicklable->throw("Storable cannot write this value: $why");
    }
    return ( $bytes, $self->_storable_flags );
}

sub _loaded {
    my ( $self, $bytes, $flags ) = @_;
    return $self->{serializer}->load( $bytes, $flags ) if $self->{serializer};
    my $value = eval { Storable::thaw($bytes) };
    if ( !defined $value ) {
        Pinyon::Error::UndecodableValue->throw('the stored value is not what Storable writes, as its flags say it is');
    }
    return $value;
}

sub remove       { goto &delete }
sub remove_multi { goto &delete_multi }

sub exists {    ## no critic (ProhibitBuiltinHomonyms)
    my ( $self, $key ) = @_;
    return defined $self->meta($key);
}

sub get_or_set {
    my ( $self, $key, $make, %options ) = @_;
    if ( ( reftype( $make // q{} ) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('get_or_set takes a key and a reference to a sub that makes the value');
    }
    return Pinyon::Making->new( $self, $key, %options )->value($make);
}

sub lease {
    my ( $self, $key, %options ) = @_;
    return Pinyon::Lease->new( $self, $key, $self->_lease( $key, %options ) );
}

sub quiet {
    my ( $self, $fill ) = @_;
    my $batch = Pinyon::Batch->new($self);
    return $batch if !$fill;
    $fill->($batch);
    return $batch->finish;
}

sub using {
    my ( $self, %settings ) = @_;
    my $view = bless { %{$self} }, ref $self;
    $view->_attach_view( $self, Pinyon::Settings::flat(%settings) );
    return $view;
}

sub version {
    my ($self) = @_;
    return $self->_ask_servers( 0, undef, undef );
}

sub stats {
    my ( $self, $kind ) = @_;
    return $self->_ask_servers( 1, $kind, undef );
}

sub flush_all {
    my ( $self, $delay ) = @_;
    $self->_ask_servers( 2, undef, $delay );
    return 1;
}

sub metrics {
    my ($self) = @_;
    require JSON::PP;
    my $metrics = JSON::PP->new->utf8->decode( $self->_metrics );
    return $metrics if ref $metrics eq 'HASH';
    return { map { delete $_->{server} => $_ } @{$metrics} };
}

sub servers_of {
    my ( $self, $key ) = @_;
    Pinyon::Error::UnsupportedType->throw('a key is a string, not undef') if !defined $key;
    return $self->_servers_of($key);
}

sub servers {
    my ($self) = @_;
    return $self->_servers_of(undef);
}

# Reports events when an operation is over: a callback may use the client.
sub _tell {
    my ($self) = @_;
    my $told = $self->{on_event} or return;
    while ( my $event = $self->_next_event ) {
        next if eval { $told->($event); 1 };
        warn "pinyon: on_event failed: $@";
    }
    return;
}

1;
