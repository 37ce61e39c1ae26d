package Pinyon::Making;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

my %IS_OPTION = map { $_ => 1 } qw(ttl stale early lease wait);

# One caller of get_or_set.
sub new {
    my ( $class, $client, $key, %options ) = @_;
    for my $name ( sort keys %options ) {
        Pinyon::Error::Usage->throw(qq{get_or_set has no option "$name"}) if !$IS_OPTION{$name};
    }
    my $self = bless { client => $client }, $class;
    $self->_begin( $client, $key, @options{qw(ttl stale early lease wait)} );
    return $self;
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
        $self->_failed( ref $failure ? "$failure" : $failure =~ s/\s+\z//r );
        eval { $self->_run($client); 1 } or 1;
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

sub DESTROY {
    my ($self) = @_;
    return if ${^GLOBAL_PHASE} eq 'DESTRUCT';
    local ( $@, $!, $? );
    $self->_leave( $self->{client} );
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
