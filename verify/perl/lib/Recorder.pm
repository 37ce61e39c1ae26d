package Recorder;

# Appends lines to the file of this process, as pinyon_verify/locks/history.py says.

use 5.016;
use strict;
use warnings;

use Exporter    qw(import);
use Fcntl       qw(O_APPEND O_CREAT O_WRONLY);
use JSON::PP    ();
use Time::HiRes ();

our @EXPORT_OK = qw(content ending now nanoseconds);

use constant SECOND => 1_000_000_000;

my $json = JSON::PP->new->utf8;

sub now { return int( Time::HiRes::clock_gettime( Time::HiRes::CLOCK_MONOTONIC() ) * SECOND ) }

sub nanoseconds {
    my ($seconds) = @_;
    return int( $seconds * SECOND );
}

# What is in a file.
sub content {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    my $content = do { local $/ = undef; <$file> };
    close $file;
    return $content;
}

# When the world ends, as far as it is known now.
sub ending {
    my ($folder) = @_;
    return content("$folder/start") + 0;
}

sub new {
    my ( $class, $folder ) = @_;
    my $self = bless { folder => $folder }, $class;
    return $self->begin_anew;
}

# A forked child writes a file of its own.
sub begin_anew {
    my ($self) = @_;
    my $path = "$self->{folder}/$$-" . now() . '.lines';
    sysopen $self->{file}, $path, O_WRONLY | O_CREAT | O_APPEND or die "$path: $!";
    return $self;
}

sub record {
    my ( $self, $event, $attempt, %facts ) = @_;
    my $at   = delete $facts{at} // now();
    my $line = $json->encode( [ $at + 0, $$ + 0, $event, $attempt // q{}, \%facts ] ) . "\n";
    syswrite( $self->{file}, $line ) == length $line or die "a line was not written: $!";
    return;
}

1;
