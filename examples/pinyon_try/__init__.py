"""Three scenes on real servers: a cache stampede, a server that dies, and a lock whose holder is killed."""
