"""What the driver plans for a pipeline's lookups.

planning.py       memory, pages, what reading R costs
page_renewal.py   new pages when R has grown
copy_reading.py   R from a local copy, besides what has changed since
"""
