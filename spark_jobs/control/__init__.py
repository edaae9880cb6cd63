"""The control tables: who drives a pipeline and what is wanted of it, who may write, and the schema with its rights.

drivers.py             a driver's life: takes over, beats, is blocked, ends
driver_records.py      which process drives, or drove, a pipeline
driver_requests.py     what operators and launchers want of drivers
host_processes.py      whether a process lives
fencing.py             epochs: keeps older drivers, and loaders that were left over, from writing
registration.py        which fact table and event id a pipeline has
work_under_way.py      whether a run or a validation is still at work
freshness_episodes.py  times during which a pipeline missed its target
cluster.py             a warehouse that was moved to another cluster
migration.py  roles.py    schema and rights
"""
