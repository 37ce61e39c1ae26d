"""Verifies Pinyon with real processes: causes faults, records what happens, and checks the histories."""
