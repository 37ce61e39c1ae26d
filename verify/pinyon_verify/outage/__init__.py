"""A site whose database is down for a while."""
