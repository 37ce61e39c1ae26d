package Pinyon::Settings;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(reftype);

use Pinyon::Credentials ();

# The arguments of a constructor as a hash: it takes a list, or one hash.
sub given {
    my ( $class, @arguments ) = @_;
    return %{ $arguments[0] } if @arguments == 1 && ref $arguments[0] eq 'HASH';
    Pinyon::Error::Usage->throw("$class takes names and values of settings, such as timeout => 0.5") if @arguments % 2;
    return @arguments;
}

# Names and values as the library takes them: all are texts, and a list is the same name again.
sub flat {
    my (%settings) = @_;
    my ( @names, @values );
    for my $name ( sort keys %settings ) {
        my $value = $settings{$name};
        if ( ref $value eq 'CODE' && $name =~ /(?:username|password)\z/ ) {
            push @names,  "$name.function";
            push @values, Pinyon::Credentials::source($value);
        }
        elsif ( ref $value eq 'HASH' ) {
            push @names,  $name;
            push @values, 1;
            my ( $inner_names, $inner_values ) = flat( %{$value} );
            push @names,  map { "$name.$_" } @{$inner_names};
            push @values, @{$inner_values};
        }
        elsif ( ref $value eq 'ARRAY' ) {
            _check_text( $name, $_ ) for @{$value};
            push @names, ($name) x @{$value};
            push @values, @{$value};
        }
        else {
            _check_text( $name, $value );
            push @names,  $name;
            push @values, _is_false($value) ? 0 : $value;
        }
    }
    return ( \@names, \@values );
}

sub _check_text {
    my ( $name, $value ) = @_;
    return if !ref $value || _is_text($value);
    if ( $name eq 'servers' ) {
        Pinyon::Error::InvalidServers->throw(
            q{each of servers is a text such as '127.0.0.1:11211', with a weight '127.0.0.1:11211:2', not a reference to }
                . ref $value );
    }
    Pinyon::Error::Usage->throw( "$name is a text or a number, not a reference to " . ref $value );
    return;
}

# The subs among settings, which a client keeps.
sub subs {
    my (%settings) = @_;
    return [ grep { ref $_ eq 'CODE' } @settings{qw(username password sentinel_username sentinel_password)} ];
}

# Objects that act as texts, numbers or booleans, such as JSON::PP's true and false.
sub _is_text {
    my ($value) = @_;
    return grep { overload::Method( $value, $_ ) } qw("" 0+ bool);
}

# Perl's own false is both an empty text and 0.
sub _is_false {
    my ($value) = @_;
    return defined $value && !ref $value && $value eq q{} && ( $value ^ $value ) eq '0';
}

# Takes on_event off the settings, and says whether the library keeps events.
sub on_event {
    my ($settings) = @_;
    my $told = delete $settings->{on_event};
    if ( $told && ( reftype($told) // q{} ) ne 'CODE' ) {
        Pinyon::Error::Usage->throw('on_event is a reference to a sub that is called with an event');
    }
    $settings->{events} = $told ? 1 : 0;
    return $told;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Settings - the arguments of constructors: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Cache>.

=cut
