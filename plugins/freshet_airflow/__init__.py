"""Freshet in Airflow: operators and triggers that launch, watch and repair the Spark drivers of streams."""
