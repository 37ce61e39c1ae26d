"""Counts the instructions of each of Pinyon's operations, and compares them with a record in the tree."""
