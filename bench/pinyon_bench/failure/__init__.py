"""The cost to clients when one of eight servers stops, or is killed and restarted."""
