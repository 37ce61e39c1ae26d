"""Plays what a newcomer types, in fresh folders with Debian and Alpine."""
