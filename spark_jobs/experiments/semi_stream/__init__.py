"""Runs of single semi-stream joins, measured: what a point of a figure is made of."""
