"""What a long run leaves: its tables, the figures in them, and why targets were missed."""
