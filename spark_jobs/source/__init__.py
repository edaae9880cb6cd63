"""Landed files as stream tuples: read by Spark or by the tasks themselves, screened, and found again in Spark's log."""
