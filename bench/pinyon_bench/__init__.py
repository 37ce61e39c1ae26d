"""Measures memcached clients against each other and against a bare socket."""
