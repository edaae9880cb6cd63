"""Loading, from the outside in.

outcome.py                 what is loaded
loader.py                  Loader: cuts an outcome into chunks (chunk.py), and decides what to do about errors
destination.py             what a Loader loads into: a stream's batch, or a run of reprocessing/
loading_transaction.py     a stream's batch: one chunk, one transaction: fencing, facts, held tuples, its part
fact_storage.py            the three ways to store facts: optimistic, careful, tuple by tuple
staging.py  tuple_by_tuple.py  what the second and the third way are made of
refusals.py                what PostgreSQL refuses: is the tuple to blame, or the table?
held_rows.py  payload.py  json_text.py  event_times.py    tuples that are not facts
held_earlier.py  held_filter.py                keeps what is held from becoming a fact as well
reconciliation.py          event ids that two tasks of a batch stored at once
worker_session.py  server_errors.py            a session that outlives restarts of the server
"""
