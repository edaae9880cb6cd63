"""The driver's side of a pipeline's lookups: what is planned once, and what is carried from batch to batch.

planning.py  calibration.py  defaults.py    memory, pages, what reading R costs, values for keys that are not in R
driven_lookups.py  page_renewal.py          from batch to batch; new pages when R has grown
read_limit.py                               so many tuples of R a second, and no more
snapshot_plan.py  snapshot_reading.py       R from a snapshot, besides what has changed since
"""
