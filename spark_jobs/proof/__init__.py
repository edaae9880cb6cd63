"""The proof of a load (`freshet verify`): it reads the landed files again, by the stream's decoder, which it trusts.

What it does not trust is what comes after: joins, their state, loader, ledger.

verification.py                 verify; source_proof.py, streams_proof.py: the course of a proof
account.py                      reads the landed units, and compares their ranges with the ledger's account of them
fact_key.py                     whether the fact table's key is still there
stored_tuples.py                what the warehouse holds of a source, of a stream, or of joined tuples
held.py  landed_records.py      what is held, what has landed, and under which ids the warehouse may know a record
staged_events.py                records in a temporary table
join.py  lookup.py  changes.py  what each fact should be, with R as it is and as it was
comparison.py                   what differs in the facts; held_comparison.py, ledger_sums.py: in held tuples, in sums
staged_stream.py  waiting.py    of several streams: their events, and which of them wait in the state
stream_join.py                  their plain join, in the place of one source's events (parts_together.py: as plain SQL)
accumulated_facts.py            facts that are filled in part by part
after_last.py                   whether a punctuation had come before what was rejected for one
stream_places.py                each event's place; stream_ledger.py: what the ledger says of it
proof.py                        how that is shown
"""
