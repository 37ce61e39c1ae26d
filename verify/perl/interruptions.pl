#!/usr/bin/env perl
# Callers that are interrupted at random while they use a cache: python -m pinyon_verify perl
#
#     perl -Mblib=perl interruptions.pl '{"model": "coro", "servers": ["127.0.0.1:11211"], "stops": 2000, "seed": 1}'
#
# It prints what it has found, as JSON. In `signals` a handler dies in the middle of calls, or uses the same client first; in
# `coro` coroutines are thrown at and cancelled; in `anyevent` operations are cancelled, and callbacks die.

use 5.016;
use strict;
use warnings;

use FindBin  qw($Bin);
use JSON::PP ();

use lib "$Bin/lib", "$Bin/../../perl/t/lib";
use Interrupting ();

my $settings = JSON::PP->new->utf8->decode( $ARGV[0] );
my %class    = map { ( $_ => 'Interrupting::' . ucfirst ) } qw(signals coro anyevent);
my $class    = $class{ $settings->{model} } or die "no model is named $settings->{model}\n";
srand $settings->{seed};
say JSON::PP->new->utf8->canonical->encode( $class->new( @{$settings}{qw(servers stops)} )->measured );
