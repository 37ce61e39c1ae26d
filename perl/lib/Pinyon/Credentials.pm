package Pinyon::Credentials;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

use Scalar::Util qw(looks_like_number weaken);

my %KNOWN = map { $_ => 1 } qw(username password lifetime);

my %subs;    # by number, weakly: their clients keep them
my $last = 0;

# Registers a sub. Returns what the library takes for it.
sub source {
    my ($sub) = @_;
    $subs{ ++$last } = $sub;
    weaken( $subs{$last} );
    return _source($last);
}

# Answers all questions that the library has left.
sub _answer_all {
    my @left = _take();
    my @others;
    while ( my ( $question, $number ) = splice @left, 0, 2 ) {
        if ( !exists $subs{$number} ) {
            push @others, [ $question, $number ];    # of another interpreter
            next;
        }
        _answer( $question, $subs{$number} );
    }
    _leave( @{$_} ) for @others;
    return;
}

sub _answer {
    my ( $question, $sub ) = @_;
    my $told = eval { _told( $sub ? $sub->() : die "its client is gone\n" ) };
    if ( !$told ) {
        chomp( my $why = "$@" );
        return _failed( $question, $why );
    }
    return _answered( $question, @{$told}{qw(own username password)}, $told->{lifetime} // 0 );
}

# What a sub returned: a text, or a hash. No message shows it.
sub _told {
    my ($returned) = @_;
    die "it returned undef instead of a text, or of a hash of username, password and lifetime\n" if !defined $returned;
    return { own => $returned }                                                                  if !ref $returned;
    die "it returned a reference that is none to a hash of username, password and lifetime\n"    if ref $returned ne 'HASH';
    for my $name ( keys %{$returned} ) {
        die "it returned a hash with other keys than username, password and lifetime\n" if !$KNOWN{$name};
    }
    my $lifetime = $returned->{lifetime};
    if ( defined $lifetime && !( looks_like_number($lifetime) && $lifetime > 0 ) ) {
        die "it returned a lifetime that is not a positive number of seconds\n";
    }
    return $returned;
}

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon::Credentials - subs that return credentials: for Pinyon's own modules

=head1 FUNCTIONS

=for Pod::Coverage .*

None that programs should use; see L<Pinyon::Cache>.

=cut
