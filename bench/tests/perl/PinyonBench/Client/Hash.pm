package PinyonBench::Client::Hash;

# A client for tests of Perl's harness: its cache is a hash that all clients of the process share. PERL_HASH names what it does
# wrongly. In a model with callbacks it calls them from the event loop.

use v5.36;
use PinyonBench::Calls;

my %items;
my %WAITS = map { $_ => 1 } qw(perl coro);

sub new ( $class, $model ) {
    return bless {model => $model, wrong => $ENV{PERL_HASH} // q{}, inside => 0, held => 0}, $class;
}

sub version ($self) {
    return '1, ' . $self->{model}->version;
}

sub configuration ($) {
    return 'none';
}

sub connect ( $self, $, $, $quiet ) {
    my %calls = (
        get      => sub ( $, $key ) { return $self->_is('get') ? 'wrong' : $items{$key} },
        set      => sub ( $, $key, $value ) { return $self->_store( $key, $value ) },
        delete   => sub ( $, $key ) { return defined delete $items{$key} },
        get_many => sub ( $, @keys ) {
            return {} if $self->_is('get_many');
            return {map { $_ => $items{$_} } grep { exists $items{$_} } @keys};
        },
        set_many => sub ( $, @pairs ) {
            $self->_store(@$_) for @pairs;
            return {map { $_->[0] => 1 } @pairs[ ( $self->_is('set_many') ? 1 : 0 ) .. $#pairs ]};
        },
    );
    if ( !$WAITS{$self->{model}->name} ) {
        %calls = map { $_ => $self->_later( $calls{$_} ) } qw(get set);
    }
    return PinyonBench::Calls->new( client => $self, %calls, close => sub { } );
}

# Returns a call whose result comes by a callback, or by a future.
sub _later ( $self, $call ) {
    if ( $self->{model}->name eq 'future' ) {
        return sub {
            my @arguments = @_;
            return $self->{model}->later( sub { $call->(@arguments) } );
        };
    }
    return sub {
        die "refused\n" if $self->_is('refused');
        my $callback  = pop;
        my @arguments = @_[ 0 .. $#_ - 1 ];
        AnyEvent::postpone( sub { $callback->( $call->(@arguments) ) } );
    };
}

# Returns a lock that excludes others, unless it is to fail: then each worker stays inside until there are two.
sub connect_locks ( $self, $, $ ) {
    my $model = $self->{model};
    return sub ( $names, $work ) {
        $model->pause(0.001) while $self->{held} && !$self->_is('lock');
        $self->{held} = 1;
        $self->{inside}++;
        $model->pause(0.001) while $self->_is('lock') && $self->{inside} < 2;
        $work->();
        $self->{held} = 0;
    };
}

sub _store ( $self, $key, $value ) {
    $items{$key} = $value if !$self->_is('lost');
    return !$self->_is('set');
}

sub _is ( $self, $wrong ) {
    return $self->{wrong} eq $wrong;
}

1;
