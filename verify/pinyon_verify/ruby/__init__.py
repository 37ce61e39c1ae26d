"""Ruby callers that are stopped at random, and Ruby under valgrind."""
