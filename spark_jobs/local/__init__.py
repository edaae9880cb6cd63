"""The embedded platform: PostgreSQL, Airflow and the workload as child processes of `freshet up`.

up.py  streaming.py                              all phases of `freshet up`; the streams while time goes by, drained
warehouse_server.py  embedded_postgres/          the warehouse, embedded or not
kafka_pipelines.py  embedded_kafka/              `freshet up --source kafka`; a broker, also for tests
airflow_process.py  airflow_api.py  dag_runs.py  Airflow, and the pipelines' DAGs in it
detached_driver.py  workload_process.py          Spark drivers that outlive Airflow's tasks; the workload
session_process.py                               processes that can be found again and ended whole
live_status.py  terminal_progress.py             what the terminal shows
low_priority.py                                  batch jobs let the streams go first
changed_pipelines.py                             pipelines with what such demonstrations change
bad_day.py  bad_day_plan.py  bad_day_figures.py  changed_dimension.py    `freshet up --overload`
"""
