"""The page "Warehouse freshness": a web application inside Airflow's API server, behind Airflow's login."""
