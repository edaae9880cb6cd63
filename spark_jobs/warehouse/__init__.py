"""The warehouse: how facts get into it exactly once, and how that is watched and proved.

    loading/                   from a task's outcome to facts and held tuples
    copy_encoding/             arrow to binary COPY
    ledger/                    batches: opened, settled, closed, summed up
    status/                    looking at it: freshness, counts, overload, what waits to be done
    proof/                     the tuple's law, proved from the landed files
    retention/                 what is kept how long

What they share: fact_table.py, event_columns.py, event_id.py and postgres_types.py (what is loaded, and where to),
connection.py (outlives restarts of the server), latency.py (histograms). The driver's side: drivers.py (epochs,
heartbeats, the state that an operator wants), writer_sessions.py (locks against loaders that were left over),
freshness_episodes.py. Schema and rights: migration.py, roles.py.
"""
