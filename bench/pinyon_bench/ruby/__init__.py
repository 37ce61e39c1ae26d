"""The benchmark in Ruby: its rows, contestants and targets. The contestants themselves are in `bench/ruby`."""
