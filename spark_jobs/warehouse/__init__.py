"""The warehouse: how facts get into it exactly once, and how that is watched and proved.

Loading, from the outside in:

    outcome.py  event_columns.py  fact_table.py    what is loaded, and where to
    loader.py                  Loader: cuts an outcome into chunks, and decides what to do about errors
    destination.py             what a Loader loads into: a stream's batch, or a run of reprocessing/
    loading_transaction.py     a stream's batch: one chunk, one transaction: fencing, facts, held tuples, its part
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

Looking at it: status*.py (freshness and counts), ledger_span.py and operations_since.py (a span of time),
proof/ (the tuple's law). Schema and rights: migration.py, roles.py. What is kept: retention.py,
retention_walk.py.
"""
