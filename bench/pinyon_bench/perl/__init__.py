"""The benchmark in Perl: its rows, contestants and targets. The contestants themselves are in `bench/perl`."""
