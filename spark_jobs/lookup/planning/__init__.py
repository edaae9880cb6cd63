"""What the driver plans for a pipeline's lookups.

lookup_plan.py     one lookup as tasks carry it out
planning.py        algorithm, pages, what reading R costs
memory.py          how a lookup's memory is divided
typed_defaults.py  what tuples get that find nothing
page_renewal.py    new pages when R has grown
copy_reading.py    R from a local copy, besides what has changed since
"""
