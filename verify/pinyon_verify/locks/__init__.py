"""Shared locks: client processes work under faults and write down what they do; checks read that afterwards."""
