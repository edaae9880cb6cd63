"""Runs of stream-stream joins: what the figures of the papers measure.

interval_streams.py  streams of intervals
join_tree.py         one join, or a tree of binary ones
timed_run.py         results by time, on a virtual clock
"""
