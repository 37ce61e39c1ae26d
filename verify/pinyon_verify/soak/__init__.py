"""The soak: caches on real processes that are killed, paused and silenced, under many workers, for minutes."""
