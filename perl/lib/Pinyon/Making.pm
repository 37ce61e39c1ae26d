package Pinyon::Making;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Pinyon::Made ();

my %IS_OPTION = map { $_ => 1 } qw(ttl stale early lease wait jitter on_error retry_after soft_timeout refresh tags);

# One caller of get_or_set, or of get_or_set_multi with the keys.
sub new {
    my ( $class, $client, $key, %options ) = @_;
    return _begun( bless( { client => $client }, $class ), $key, %options );
}

# One caller that has the value made whatever is stored, and stores it in its place.
sub anew {
    my ( $class, $client, $key, %options ) = @_;
    return _begun( bless( { client => $client, is_anew => 1 }, $class ), $key, %options );
}

sub _begun {
    my ( $self, $key, %options ) = @_;
    $self->_begin( $self->{client}, $key, $self->_terms( get_or_set => %options ) );
    return $self;
}

# The options of a method as `fill_terms` in C takes them. Keeps the sub that tells the ttl of a value.
sub _terms {
    my ( $self, $method, %options ) = @_;
    for my $name ( sort keys %options ) {
        Pinyon::Error::Usage->throw(qq{$method has no option "$name"}) if !$IS_OPTION{$name};
    }
    my $on_error = $options{on_error} // 'raise';
    if ( $on_error ne 'raise' && $on_error ne 'stale' ) {
        Pinyon::Error::Usage->throw(qq{on_error must be "raise" or "stale", not "$on_error"});
    }
    my $refresh = $options{refresh} // 'wait';
    if ( $refresh ne 'wait' && $refresh ne 'behind' ) {
        Pinyon::Error::Usage->throw(qq{refresh must be "wait" or "behind", not "$refresh"});
    }
    my $own_ttl = $self->{own_ttl} = ref $options{ttl} eq 'CODE' ? $options{ttl} : undef;
    return (
        $options{ttl},
        defined $own_ttl,
        @options{qw(stale early lease wait jitter)},
        $on_error eq 'stale',
        @options{qw(retry_after soft_timeout)},
        $refresh eq 'behind',
        $self->{is_anew}, $options{tags}
    );
}

# Takes what the sub returned: a value, or one with more to say of it.
sub _made {
    my ( $self, $client, $made ) = @_;
    return $self->_take( $client, $self->_said_of($made) );
}

# A value that was made, its ttl, how long it stays after that, and whether it is stored.
sub _said_of {
    my ( $self, $made ) = @_;
    my $own_ttl = $self->{own_ttl};
    if ( UNIVERSAL::isa( $made, 'Pinyon::Made' ) ) {
        my ( $value, $ttl, $stale, $store ) = @{$made}{qw(value ttl stale store)};
        $ttl //= $own_ttl->($value) if $own_ttl && $store;
        return ( $value, $ttl, $stale, $store );
    }
    return ( $made, $own_ttl ? $own_ttl->($made) : undef, undef, 1 );
}

# A failure in one line, for others than its caller.
sub _reason_of {
    my ($failure) = @_;
    return $failure->message if UNIVERSAL::isa( $failure, 'Pinyon::Error' );
    return ref $failure ? "$failure" : $failure =~ s/\s+\z//r;
}

sub value {
    my ( $self, $make ) = @_;
    my $client = $self->{client};
    while (1) {
        my @found = $self->_found($client);
        return $found[0] if @found;
        my $value;
        my $is_made = do {
            local $@ = undef;
            eval {
                $value = $make->();
                $self->_made( $client, $value );
                1;
            } or do { $self->{failure} = $@; 0 };
        };
        next if $is_made;
        my $failure = $self->{failure};
        $self->_failed( _reason_of($failure) );
        my @kept;
        {
            local $@ = undef;
            return $kept[0] if eval { @kept = $self->_run($client); scalar @kept };
        }
        die $failure;
    }
    return;
}

# Goes on to the value, or until it must be made, which is nothing. A value that cannot be read is made anew.
sub _found {
    my ( $self, $client ) = @_;
    while (1) {
        my ( @found, $failure );
        {
            local $@ = undef;
            return @found if eval { @found = $self->_run($client); 1 };
            $failure = $@;
        }
        die $failure if !$self->_is_made_anew($failure);
    }
    return;
}

# Whether it begins again, after a failure to read the value.
sub _is_made_anew {
    my ( $self, $failure ) = @_;
    my $reason = Pinyon::Error::_unreadable($failure);
    return defined $reason && $self->_unreadable($reason);
}

# A reference of its own would keep handlers of signals from waiting until the object has gone: see handlers_after in C.
sub DESTROY {    ## no critic (RequireArgUnpacking)
    return if ${^GLOBAL_PHASE} eq 'DESTRUCT';
    local ( $@, $!, $? );
    $_[0]->_leave( $_[0]{client} );
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Making - one caller of get_or_set: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Cache>.

=cut
