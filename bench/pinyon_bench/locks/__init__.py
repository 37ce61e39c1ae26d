"""The parts for locks only: a Redis server, workloads, contestants, tables."""
