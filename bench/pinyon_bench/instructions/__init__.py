"""Counts the instructions of each operation of Pinyon, and holds them against a record in the tree."""
