"""One server of eight stops, or is killed and restarted: what it costs the clients."""
