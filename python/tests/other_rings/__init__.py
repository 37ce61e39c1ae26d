"""Where other clients put keys, determined with these clients, for comparison with the named rings."""
