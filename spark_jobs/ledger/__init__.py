"""The ledger: what was read, loaded, held and pruned, as PostgreSQL remembers it, and the status that follows from it.

batch_ledger.py       opens and closes a stream's batches, settles duplicates, adds to the sums by minute
batch_streams.py      how far each of several streams had come with a batch, and what became of its events
id_sketches.py        which event ids have to be stored under the number of each batch and reprocessing run
source_ranges.py      a stream's position: which ranges of its source were planned and read, by which batch
unread.py             what has landed and is in no batch yet
files_not_loaded.py   files that were set aside or lost, or are to be read again
retention.py          deletes what is kept no longer, and keeps its sums
latency.py            latencies as histograms
sums.py               what batches and reprocessing runs add up to
period.py             what happened in a period
status/               how fresh the warehouse is, from the warehouse alone
"""
