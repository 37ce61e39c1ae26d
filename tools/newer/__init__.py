"""Debian's next releases as a second platform, each in a folder: Pinyon is built for them, tested and measured there."""
