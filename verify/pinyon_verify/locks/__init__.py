"""Shared locks: client processes work under faults and record what they do; checks then read the records."""
