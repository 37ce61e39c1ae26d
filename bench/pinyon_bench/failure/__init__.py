"""What it costs clients when one server of eight stops, or is killed and restarted."""
