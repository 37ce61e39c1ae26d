package Tickets;

# The tickets of locks that are handed over: files in a folder, as pinyon_verify/locks/tickets.py says.

use 5.016;
use strict;
use warnings;

use JSON::PP ();

use Recorder qw(content);

# How often a worker leaves the ticket that it uses to others, who then use it, too.
use constant SHARED => 0.3;

my $json = JSON::PP->new->utf8;

sub new {
    my ( $class, $folder ) = @_;
    return bless { folder => $folder }, $class;
}

# Puts it where others find it: the text for `adopt`, the lock's names, and the attempt that had it.
sub leave {
    my ( $self, %ticket ) = @_;
    my $path = $self->_path( $ticket{attempt} );
    open my $file, '>', "$path.new" or die "$path.new: $!";
    print {$file} $json->encode( \%ticket ) or die "$path.new: $!";
    close $file                             or die "$path.new: $!";
    rename "$path.new", $path or die "$path: $!";
    return;
}

# A ticket that somebody has left, if there is one.
sub find {
    my ( $self, $random ) = @_;
    my @paths = glob "$self->{folder}/*.ticket" or return;
    my $path  = $paths[ int $random->( scalar @paths ) ];

    # Another one may have taken it.
    my $content = eval { content($path) } or return;
    unlink $path if $random->() >= SHARED;
    return $json->decode($content);
}

# Removes a ticket that was used.
sub remove {
    my ( $self, $ticket ) = @_;
    unlink $self->_path( $ticket->{attempt} );
    return;
}

sub _path {
    my ( $self, $attempt ) = @_;
    return "$self->{folder}/$attempt.ticket";
}

1;
