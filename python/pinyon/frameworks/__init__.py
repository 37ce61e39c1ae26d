"""Pinyon as the cache of frameworks: one module each, over the public clients alone."""
