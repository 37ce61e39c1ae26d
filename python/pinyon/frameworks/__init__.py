"""Cache backends for frameworks. Each has a module of its own, which needs its framework.

A backend uses only the public client. It translates the framework's words into the client's, and passes on every
setting that it does not take itself. No other code imports it.
"""
