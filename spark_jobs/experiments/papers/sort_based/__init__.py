"""The figures of 004: the temporal progressive merge join, n-way and as a tree of binary joins."""
