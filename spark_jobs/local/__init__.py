"""The embedded platform of `freshet up`, which production does not import: PostgreSQL, Airflow, workload as children.

up.py  streaming.py                              all phases of `freshet up`; the streams while time goes by, drained
warehouse_server.py  embedded_postgres/          the warehouse, embedded or not
warehouse_users.py  psql_shell.py                its users with few rights; psql on it
kafka_pipelines.py  embedded_kafka/              `freshet up --source kafka`; a broker, also for tests
airflow_process.py  airflow_api.py  dag_runs.py  Airflow, and the pipelines' DAGs in it
workload_process.py                              the workload
keeper.py                                        starts again what ended by itself
live_status.py  terminal_progress.py             what the terminal shows
changed_pipelines.py                             pipelines with what such demonstrations change
bad_day.py  bad_day_plan.py  bad_day_figures.py  changed_dimension.py    `freshet up --overload`
"""
