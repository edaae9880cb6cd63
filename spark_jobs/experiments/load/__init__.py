"""`freshet bench load`: the same events, the same R, the same machine; Freshet beside what else would load them.

load_benchmark.py                              runs the contenders in turn; contender_run.py: one run, as a process
freshet_join.py  spark_join.py  copy_limit.py  the contenders
data.py                                        R, the events, the fact table
run_result.py                                  what a run gives, and takes of the machine
"""
