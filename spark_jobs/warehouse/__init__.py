"""What all that touches the warehouse shares: its connection, its schema and rights, and who drives a pipeline.

fact_table.py, event_columns.py, event_id.py and postgres_types.py (what is loaded, and where to),
connection.py (outlives restarts of the server), latency.py (histograms). The driver's side: drivers.py (epochs,
heartbeats, the state that an operator wants), writer_sessions.py (locks against loaders that were left over),
freshness_episodes.py. Schema and rights: migration.py, roles.py.
"""
