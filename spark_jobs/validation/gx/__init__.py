"""Validation by Great Expectations. Importing anything below takes seconds: only a validation does it.

suite.py         our expectations as Great Expectations' own, and the one that it lacks
suite_run.py     a whole suite over the facts, in the warehouse; its pages, kept for the newest runs
findings.py      its results as findings
plain_pages.py   how the pages look: no scripts, nothing from elsewhere
"""

import logging
import os

# Tell no one who validates what.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
# Its import tells of each function that it documents: two hundred lines that bury those of a validation.
logging.getLogger("great_expectations._docs_decorators").setLevel(logging.WARNING)
