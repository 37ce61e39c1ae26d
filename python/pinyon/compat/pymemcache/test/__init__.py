"""What pymemcache has for the tests of programs."""
