"""The proof of a load (`freshet verify`): it reads the landed files again, by the stream's decoder, which it trusts.

What it does not trust is what comes after: joins, loader, ledger.

verification.py                 verify: the course of a proof
landing_folder.py               the files, those that are there and those that the ledger knows
account.py                      reads the files, and compares their ranges with the ledger's account of them
held.py  landed_records.py      what is held, what has landed, and under which ids the warehouse may know a record
staged_events.py                records in a temporary table
join.py  lookup.py  changes.py  what each fact should be, with R as it is and as it was
comparison.py  ledger_sums.py   what differs
proof.py                        how that is shown
"""
