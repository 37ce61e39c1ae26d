"""Cache backends of other people's frameworks, each in a module of its own, which needs that framework."""
