"""Where other clients put keys, as they say themselves: what rings by name are compared with."""
