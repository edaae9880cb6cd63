"""The warehouse: how facts get into it exactly once, and how that is watched and proved.

Loading, from the outside in:

    outcome.py  event_columns.py  fact_table.py    what is loaded, and where to
    loader.py                  Loader: cuts an outcome into chunks, and decides what to do about errors
    loading_transaction.py     one chunk, one transaction: fencing, facts, held tuples, the batch's part
    fact_storage.py            the three ways to store facts: optimistic, careful, by halves
    staging.py  bisection.py   what the second and the third way are made of
    held_rows.py  payload.py  json_text.py         tuples that are not facts
    held_earlier.py  held_filter.py                keeps what is held from becoming a fact as well
    event_id.py                event ids as text and as hash codes
    copy_encoding/             arrow to binary COPY
    worker_session.py  connection.py  server_errors.py    a session that outlives restarts of the server

The driver's side:

    drivers.py                 epochs, heartbeats, the state that an operator wants
    ledger.py  reconciliation.py  latency.py       batches: opened, settled, closed, measured
    writer_sessions.py         locks against loaders that were left over

Looking at it: status*.py (freshness and counts), proof*.py (the tuple's law). Schema: migration.py.
"""
