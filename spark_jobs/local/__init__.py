"""The embedded platform: PostgreSQL, Airflow and the workload as child processes of `freshet up`."""
