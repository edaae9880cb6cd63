"""The proof of a load (`freshet verify`): it reads the landed files again, and trusts nothing of what loaded them.

verification.py                         verify: the course of a proof
landing.py  events.py  csv_records.py  json_records.py  values.py    the landed events
ids.py  staging.py  column_types.py     events in a temporary table
join.py  lookup.py  former.py  changes.py    what each fact should be, with R as it is and as it was
comparison.py  ledger.py  report.py     what differs, and how that is told
"""

from spark_jobs.proof.report import Proof
from spark_jobs.proof.verification import verify

__all__ = ["Proof", "verify"]
