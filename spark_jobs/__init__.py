"""Freshet: loads facts into a PostgreSQL warehouse seconds after they happen.

docs/architecture.md says what each package is. The files beside them:

stream_load.py  reprocess_shed.py  rebuild_cache.py     mains
waiting_work.py                                         what waits to be done about each pipeline
job_main.py                                             what these mains share
settings.py                                             paths and servers of an installation
errors.py  task_errors.py                               errors; those that tasks bring to the driver
shown_text.py  secret_text.py                           texts of others as they are shown; passwords of tasks
durable_files.py  private_files.py                      files that survive a crash; that only their owner reads
connection_liveness.py                                  connections that notice a server that is gone
byte_sizes.py  durations.py  timestamps.py              sizes, durations and times, as people write them
optional_imports.py                                     packages that workers do without
"""
