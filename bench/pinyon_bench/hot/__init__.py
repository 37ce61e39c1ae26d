"""Rows of hot keys: few keys are read often, beside clients that keep such keys in the memory of their process."""
