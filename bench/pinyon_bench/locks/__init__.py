"""What locks need besides what all rows share: a Redis server, workloads, contestants, tables."""
