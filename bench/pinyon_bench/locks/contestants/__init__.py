"""One adapter for each lock library."""
