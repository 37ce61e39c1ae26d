"""The interfaces of other clients, for programs that use them."""
