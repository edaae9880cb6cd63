"""Cost models of the stream-stream joins: what an algorithm does for a tuple, by arithmetic alone."""
