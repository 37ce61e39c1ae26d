"""Shared locks: client processes work under faults and record their actions, which checks read afterwards."""
