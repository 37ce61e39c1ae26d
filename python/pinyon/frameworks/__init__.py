"""Cache backends for frameworks. Each has a module of its own, which needs its framework."""
