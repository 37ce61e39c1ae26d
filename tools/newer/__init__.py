"""Debian's next releases as a second platform, each in a folder: Pinyon is built, tested and measured there."""
