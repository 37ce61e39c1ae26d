"""Verifies Pinyon on real processes: it provokes faults, records what happens and checks the histories."""
