"""Loading, from the outside in.

outcome.py        what is loaded
loader.py         Loader: cuts an outcome into chunks, and decides what to do about errors
chunk.py          what one transaction stores, encoded before that begins
stream_batch.py   what a Loader loads into: the open batch of a stream (or a run, see reprocessing/); tells which ids
                  it dropped as duplicates
fact_storage.py   the modes in which facts are stored: optimistic, careful, tuple by tuple
refusals.py       PostgreSQL's errors, and what it refuses: is the tuple to blame, or the table?
held_rows.py      tuples that are no facts, and payload.py: their records as they arrived
event_hashes.py   hash codes of event ids, computed once
recent_ids.py     which events this host has loaded lately, in a filter of bloom_filter.py
held_earlier.py   keeps what is held from becoming a fact as well
accumulation/     facts that the parts of several streams fill in
"""
