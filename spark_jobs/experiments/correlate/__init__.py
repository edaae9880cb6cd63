"""`freshet bench correlate`: streams become facts; Freshet beside Spark's own stream-stream join, and beside scripts.

correlate_benchmark.py                          runs the contenders in turn; contender_run.py: one run, as a process
freshet_correlation.py  spark_stream_join.py  scripts/    the contenders
data.py                                         the streams, the fact table
recovery.py                                     Freshet after kill -9, with many tuples that wait
"""
