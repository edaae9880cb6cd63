"""Runs of single semi-stream joins, measured: what a point of a figure is made of.

workloads.py  key_streams.py      what is joined: R by its size, a stream by the popularity of keys
real_disks.py                     R in a direct file or in PostgreSQL
join_run.py  run_measurement.py   a stream that never lets the join wait, or one with arrivals; what is measured
overloaded_run.py                 a stream that comes too fast, and what shedding costs
shedding_run.py                   the series of 003 Fig. 7 and 8
auto_join.py  stream_sample.py    the join that chooses its algorithm by itself
"""
