package Pinyon::Compat::Stored;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp           ();
use Compress::Zlib ();
use Storable       ();

use Pinyon ();

our @CARP_NOT = map { "Pinyon::Compat::$_" } qw(Cache_Memcached Cache_Memcached_Fast Client Common Many);

# The flags of Perl's clients.
use constant { SERIALIZED => 1, COMPRESSED => 2, TEXT => 4 };

# What `load` returns for a value that cannot be read: the clients make a miss of it.
our $UNREADABLE = \'unreadable';

sub new {
    my ( $class, %given ) = @_;
    my $serialize = $given{serialize} || [ \&Storable::nfreeze, \&Storable::thaw ];
    my $compress  = $given{compress}  || [ \&_gzipped,          \&_gunzipped ];
    my $self      = bless {
        freeze      => $serialize->[0],
        thaw        => $serialize->[1],
        compress    => $compress->[0],
        decompress  => $compress->[1],
        threshold   => $given{threshold} // 0,
        ratio       => $given{ratio}     // 1,
        is_enabled  => 1,
        has_text    => $given{has_text}  ? 1 : 0,
        takes_any   => $given{takes_any} ? 1 : 0,
        max_size    => $given{max_size},
        plain_below => 0,
    }, $class;
    return $self;
}

sub enable_compress {
    my ( $self, $is_enabled ) = @_;
    $self->{is_enabled} = $is_enabled ? 1 : 0;
    $self->leave_plain if $self->{plain_below};
    return;
}

sub set_threshold {
    my ( $self, $threshold ) = @_;
    $self->{threshold} = $threshold // 0;
    $self->leave_plain if $self->{plain_below};
    return;
}

# Lets bytes below this size, `plain_below`, be stored as they are: they need neither compression nor a refusal.
sub leave_plain {
    my ($self) = @_;
    my $below = $self->{max_size} + 1;
    $below = $self->{threshold} if $self->{is_enabled} && $self->{threshold} > 0 && $self->{threshold} < $below;
    $self->{plain_below} = $below;
    return;
}

sub max_size { return $_[0]{max_size} }

# Whether values need nothing that Pinyon's own way to store them, with Storable and the dialect of Perl's clients, has not.
sub are_plain {
    my ( $self, @values ) = @_;
    my $limit = $self->{max_size};
    if ( $self->{threshold} > 0 && $self->{is_enabled} ) {
        return 0 if grep { ref || !defined || length >= $self->{threshold} } @values;
    }
    for my $value (@values) {
        next     if ref $value;
        return 0 if !defined $value || length $value > $limit || ( utf8::is_utf8($value) && !$self->{has_text} );
    }
    return 1;
}

# A value as bytes and flags, in an array, which `dump` takes. Nothing if it is larger than the client's limit.
sub packed {
    my ( $self, $value ) = @_;
    my $flags = 0;
    if ( ref $value ) {
        $value = $self->{freeze}->($value);
        $flags = SERIALIZED;
    }
    elsif ( utf8::is_utf8($value) ) {
        if ( $self->{has_text} ) {
            utf8::encode($value);
            $flags = TEXT;
        }
        elsif ( $self->{takes_any} ) {
            utf8::encode($value);
        }
        elsif ( !utf8::downgrade( $value, 1 ) ) {
            Carp::croak('Wide character in subroutine entry');
        }
    }
    elsif ( !defined $value ) {
        _warn_of_undef();
        $value = q{};
    }
    my $threshold = $self->{threshold};
    if ( $threshold > 0 && $self->{is_enabled} && length($value) >= $threshold ) {
        my $compressed;
        if ( $self->{compress}->( \$value, \$compressed )
            && length($compressed) <= length($value) * $self->{ratio} )
        {
            $value = $compressed;
            $flags |= COMPRESSED;
        }
    }
    return if defined $self->{max_size} && length($value) > $self->{max_size};
    return [ "$value", $flags ];
}

# The two methods that Pinyon::Cache calls.
sub dump {    ## no critic (ProhibitBuiltinHomonyms)
    return @{ $_[1] };
}

sub load {
    return $_[1] if !$_[2];
    my ( $self, $value, $flags ) = @_;
    if ( $flags & COMPRESSED ) {
        my $compressed = $value;
        my $is_read    = eval { $self->{decompress}->( \$compressed, \$value ) };
        return $UNREADABLE if !$is_read;
    }
    if ( $flags & SERIALIZED ) {
        return eval { $self->{thaw}->($value) } // $UNREADABLE;
    }
    if ( $flags & TEXT && $self->{has_text} ) {
        utf8::decode($value) || return $UNREADABLE;
        utf8::upgrade($value);
    }
    return $value;
}

sub _gzipped {
    my ( $plain, $compressed ) = @_;
    return defined( ${$compressed} = Compress::Zlib::memGzip( ${$plain} ) );
}

sub _gunzipped {
    my ( $compressed, $plain ) = @_;
    return defined( ${$plain} = Compress::Zlib::memGunzip( ${$compressed} ) );
}

sub _warn_of_undef {
    local $Carp::CarpLevel = 0;
    Carp::carp('Use of uninitialized value in subroutine entry');
    return;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Compat::Stored - values as Perl's other clients store them: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Compat::Cache_Memcached_Fast>.

=cut
