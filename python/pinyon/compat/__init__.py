"""Interfaces of other clients, for programs that were written for them."""
