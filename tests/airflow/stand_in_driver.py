"""A driver without Spark: takes the pipeline over and obeys, as spark_jobs/stream_load.py does.

STAND_IN says how: `run` (default), `refuse` (end before taking over), `fail` (end with an error after it),
`silent` (live on without a heartbeat).
"""

import os
import signal
import sys
import time

import psycopg2

from spark_jobs.control import drivers
from spark_jobs.settings import home

pipeline, behaviour = sys.argv[1], os.environ.get("STAND_IN", "run")
if behaviour == "refuse":
    sys.exit("the fact table is missing")
connection = psycopg2.connect(os.environ["FRESHET_WAREHOUSE_URL"])
epoch = drivers.take_over(connection, pipeline, log_file=home().driver_log(pipeline))
print(f"driver of epoch {epoch}, command line {sys.argv}", flush=True)
if behaviour == "fail":
    drivers.finish(connection, pipeline, epoch, "failed", "a disk is full")
    sys.exit(1)
if behaviour == "silent":
    signal.pause()
while (wanted := drivers.heartbeat(connection, pipeline, epoch)) == "running":
    time.sleep(0.1)
drivers.finish(connection, pipeline, epoch, "stopped" if wanted == "draining" else "fenced")
