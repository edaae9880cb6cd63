"""Validation by Great Expectations. Importing anything below takes seconds: only a validation does it.

suite.py                 our expectations as Great Expectations' own
few_unexpected_rows.py   the one expectation that it lacks: a query that finds (nearly) nothing
run.py                   a whole suite over the facts, in the warehouse
findings.py              its results as findings
data_docs.py             its pages, kept for the newest validations
plain_pages.py           how the pages look: no scripts, nothing from elsewhere
"""

import os

# Nothing is to be told to anybody about who validates what.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
