"""The coroutines' workloads: pairs of UUIDs (seed 002), and values of a size over a fast and a slow link (seed 003)."""
