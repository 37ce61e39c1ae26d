"""Callers of Ruby and of Perl that are stopped at random, also under valgrind."""
