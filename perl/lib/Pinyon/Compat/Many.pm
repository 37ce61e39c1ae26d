package Pinyon::Compat::Many;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Carp ();

use Pinyon                 ();
use Pinyon::Compat::Common qw(_counted _failed _is_unread _is_unreadable _number _ttl);

our @CARP_NOT = @Pinyon::Compat::Common::CARP_NOT;

sub get_multi {
    my ( $self, @keys ) = @_;
    return $self->_read_many( get_multi => \@keys );
}

sub gets_multi {
    my ( $self, @keys ) = @_;
    return _reversed( $self->_read_many( gets_multi => \@keys ) );
}

sub gat_multi {
    my ( $self, $ttl, @keys ) = @_;
    return $self->_read_many( gat_multi => \@keys, _ttl($ttl) );
}

sub gats_multi {
    my ( $self, $ttl, @keys ) = @_;
    return _reversed( $self->_read_many( gats_multi => \@keys, _ttl($ttl) ) );
}

sub _reversed {
    my ($pairs) = @_;
    @{$_} = reverse @{$_} for values %{$pairs};
    return $pairs;
}

# Values by the keys as they were given.
sub _read_many {
    my ( $self, $method, $keys, @first ) = @_;
    $self->_settle if $self->{batch};
    return {}      if !@{$keys};
    my $is_bare = !$self->{has_prefix} && !grep { !defined || ref || utf8::is_utf8($_) } @{$keys};
    my @sent    = $is_bare ? @{$keys} : map     { $self->_key($_) } @{$keys};
    local $@ = undef;
    my $found = eval { $self->{cache}->$method( @first, @sent ) };
    if ( !$found && !_failed($@) && _is_unread($@) ) {
        $found = eval { $self->{exact}->$method( @first, @sent ) } // _failed($@);
    }
    $found ||= $@->partial || {};
    my $has_text = $self->{stored}{has_text};
    my $is_pairs = $method =~ /ts_multi\z/;
    for my $sent ( keys %{$found} ) {
        my $stored = $is_pairs ? $found->{$sent}[0] : $found->{$sent};
        if ( ref $stored ) {
            delete $found->{$sent} if _is_unreadable($stored);
        }
        elsif ( !$has_text && utf8::is_utf8($stored) ) {
            utf8::encode( $is_pairs ? $found->{$sent}[0] : $found->{$sent} );
        }
    }
    return $found if $is_bare;
    return { map { ( $keys->[$_] // q{} ) => $found->{ $sent[$_] } } grep { exists $found->{ $sent[$_] } } 0 .. $#sent };
}

for my $method (qw(set add replace)) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{"${method}_multi"} = sub {
        my ( $self,   @items )  = @_;
        my ( $client, @stored ) = $self->_writing( map { $_->[1] } _checked( 2, @items ) );
        my @sent;
        for my $item (@items) {
            my ( $key, undef, $ttl ) = @{$item};
            my $stored = shift @stored;
            push @sent, [ "$key", defined $stored ? [ $self->_key($key), $stored, $ttl ? _ttl($ttl) : 0 ] : undef ];
        }
        return $self->_write_many( $client, $method, wantarray, @sent );
    };
}

for my $method (qw(append prepend)) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{"${method}_multi"} = sub {
        my ( $self, @items ) = @_;
        my @sent;
        for my $item ( _checked( 2, @items ) ) {
            my $stored = $self->{stored}->packed( $item->[1] );
            push @sent, [ "$item->[0]", $stored && [ $self->_key( $item->[0] ), $stored->[0] ] ];
        }
        return $self->_write_many( $self->{cache}, $method, wantarray, @sent );
    };
}

sub cas_multi {
    my ( $self,   @items )  = @_;
    my ( $client, @stored ) = $self->_writing( map { $_->[2] } _checked( 3, @items ) );
    my @sent;
    for my $item (@items) {
        my ( $key, $cas, undef, $ttl ) = @{$item};
        my $stored = shift @stored;
        push @sent, [ "$key", defined $stored ? [ $self->_key($key), $stored, $cas, _ttl($ttl) ] : undef ];
    }
    return $self->_write_many( $client, 'cas', wantarray, @sent );
}

sub delete_multi {
    my ( $self, @items ) = @_;
    my @sent = map { [ $_, [ $self->_key($_) ] ] } map { ref $_ eq 'ARRAY' ? ( _checked( 1, $_ ) )[0][0] : $_ // q{} } @items;
    return $self->_write_many( $self->{cache}, 'delete', wantarray, @sent );
}

sub touch_multi {
    my ( $self, @items ) = @_;
    my @sent = map { [ $_->[0], [ $self->_key( $_->[0] ), _ttl( $_->[1] ) ] ] } _checked( 1, @items );
    return $self->_write_many( $self->{cache}, 'touch', wantarray, @sent );
}

for my $method (qw(incr decr)) {
    no strict 'refs';    ## no critic (ProhibitNoStrict)
    *{"${method}_multi"} = sub {
        my ( $self, @items ) = @_;
        my @sent;
        for my $item (@items) {
            my ( $key, $number ) = ref $item eq 'ARRAY' ? @{ ( _checked( 1, $item ) )[0] } : ( $item // q{} );
            push @sent, [ "$key", [ $self->_key($key), _number($number) ] ];
        }
        return $self->_write_many( $self->{cache}, $method, wantarray, @sent );
    };
}

# Nothing is sent unless all arguments are well formed.
sub _checked {
    my ( $fields, @items ) = @_;
    for my $item (@items) {
        Carp::croak('Not an array reference') if ref $item ne 'ARRAY';
        for my $field ( 0 .. $fields - 1 ) {
            Carp::croak('undefined value passed to av_fetch') if !defined $item->[$field];
        }
    }
    return @items;
}

# Items are the key as given and the arguments, which are missing for what cannot be sent. Results are in order in list
# context, without what failed at the end, and by key in scalar context.
sub _write_many {
    my ( $self, $client, $method, $is_list, @items ) = @_;
    my @sent = map { $_->[1] || () } @items;
    if ( $self->{nowait} && !defined $is_list ) {
        $self->_push( $client, $method, @{$_} ) for @sent;
        return;
    }
    $self->_settle if $self->{batch};
    my @results = _results( $client, "${method}_multi", \@sent );
    if ( @sent < @items ) {
        my @received = @results;
        @results = map { $_->[1] ? shift @received : undef } @items;
    }
    if ($is_list) {
        pop @results while @results && !defined $results[-1];
        return @results;
    }
    my %results;
    for my $index ( grep { defined $results[$_] } 0 .. $#items ) {
        $results{ $items[$index][0] } = $results[$index];
    }
    return \%results;
}

# The result of each of many commands; undef for what failed.
sub _results {
    my ( $client, $method, $sent ) = @_;
    return if !@{$sent};
    local $@ = undef;
    my @results;
    my $counts = $method =~ /\A(?:in|de)cr/;
    if ( eval { @results = $client->$method( @{$sent} ); 1 } ) {
        return map { _counted($_) } @results if $counts;
        return map { $_ // q{} } @results;
    }
    my $why = $@;
    _failed($why);
    my $partial = $why->partial || {};
    for my $item ( @{$sent} ) {
        if ( !exists $partial->{ $item->[0] } ) {
            push @results, undef;
            next;
        }
        my $result = $partial->{ $item->[0] };
        push @results, $counts ? _counted($result) : $result // q{};
    }
    return @results;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Compat::Many - the methods for many keys of the clients of Pinyon::Compat: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Compat::Cache_Memcached_Fast>.

=cut
