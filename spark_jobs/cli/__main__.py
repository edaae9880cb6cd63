"""`python -m spark_jobs.cli`, where the installed command is not on the path."""

from spark_jobs.cli import app

app()
