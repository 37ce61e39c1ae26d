#!/usr/bin/perl

# Runs one Perl contestant, spoken to in JSON lines: `perl contestant.pl CLIENT MODEL`. `protocol.py` describes the
# requests and the replies. CLIENT is a module in `lib/PinyonBench/Client`, MODEL one in `lib/PinyonBench/Model`.

use v5.36;
use FindBin;
use lib "$FindBin::Bin/lib", map {"$FindBin::Bin/../../perl/blib/$_"} qw(lib arch);
use PinyonBench::Requests;

die "usage: perl $0 CLIENT MODEL\n" if @ARGV != 2;
exit PinyonBench::Requests::answer_all(@ARGV);
