"""Figures of 003: the front stage before MESHJOIN, HYBRIDJOIN and INLJ, and load shedding."""
