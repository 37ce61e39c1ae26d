"""The benchmark in C: its rows, contestants, and their harness. The clients themselves are in `bench/c`."""
