"""Figures of 000: HYBRIDJOIN beside MESHJOIN and index nested loop join."""
