"""A tuple's way through Spark's tasks.

batch_job.py        the way: front stage, then for each lookup an exchange and a back stage
collect_task.py     of several streams, before that: reads and screens, sends each tuple to its key's bucket
accumulate_task.py  or makes facts of a bucket's parts, and fills them in
join_task.py        joins a bucket's tuples with its state (hot_buckets.py); the results go through the front stage
stream_plan.py      what these are told
pinned_tasks.py     how the tasks of a bucket come to the same Python worker, batch after batch
front_task.py       reads and screens (screening.py), probes the front stages, loads full hits
exchange.py         carries what waits to the task that owns its range of R: keys in memory there, tuples aside
back_task.py        joins it by the lookup's algorithm, until all is settled or the time is spent
fetching.py         columns of R for the tuples, or why there are none
task_loading.py     facts and held tuples to the warehouse, in chunks
batch_context.py    what the driver tells the tasks
reports.py          what the tasks tell the driver
poison_search.py    finds what ends the process that reads it, by trials: trial_process.py, trial_reading.py
failure_kind.py     what is in a batch's way where neither its tuples nor Freshet are at fault
warm_up.py  worker_daemon.py    ready before the first tuple: what a worker loads and compiles
"""
