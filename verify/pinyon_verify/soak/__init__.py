"""The soak: many workers use caches for minutes while real servers are killed, paused and silenced."""
