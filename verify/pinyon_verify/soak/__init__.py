"""The soak: for minutes, many workers use caches on real processes that are killed, paused and silenced."""
