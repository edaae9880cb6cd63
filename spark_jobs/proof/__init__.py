"""The proof of a load (`freshet verify`): it reads the landed files again, by the stream's decoder, which it trusts.

What it does not trust is what comes after: joins, loader, ledger.

verification.py                         verify: the course of a proof
landing.py  planning.py                 the files, those that are there and those that the ledger knows
account.py  records.py  coverage.py     reads the files, and compares their ranges with the ledger's account of them
held.py  ids.py                         what is held, and under which ids the warehouse may know a record
staging.py  column_types.py             records in a temporary table
join.py  lookup.py  former.py  changes.py    what each fact should be, with R as it is and as it was
comparison.py  ledger.py  report.py     what differs, and how that is told
"""

from spark_jobs.proof.report import Proof
from spark_jobs.proof.verification import verify

__all__ = ["Proof", "verify"]
