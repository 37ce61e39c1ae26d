"""The Python contestants: one adapter module each, loaded by name in a process of its own."""
