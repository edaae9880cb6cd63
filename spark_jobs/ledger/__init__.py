"""The ledger: what was read, loaded, held and pruned, as PostgreSQL remembers it, and the status that follows from it.

batch_ledger.py         opens and closes a stream's batches, settles duplicates, adds to the sums by minute
accumulated_parts.py    what a batch did with the parts of accumulating facts
batch_streams.py        how far each of several streams had come with a batch, and what became of its events
id_sketches.py          which event ids have to be stored under the number of each batch and reprocessing run
source_ranges.py        a stream's position: which ranges of its source were planned and read, by which batch
partition_positions.py  how far the partitions of a topic were read
stated_ranges.py        what the ledger says of ranges, for the proof
poison.py               what of a range ends the process that decodes it
unread.py               what has landed and is in no batch yet; unread_files.py: which files these are
files_not_loaded.py     files that were set aside or lost, or are to be read again
retention.py            deletes what is kept no longer, and keeps its sums
stored_shape.py         SQL that asks a stored definition for its shape
latency.py              latencies as histograms
sums.py                 what batches and reprocessing runs add up to
period.py               what happened in a period
status/                 how fresh the warehouse is, from the warehouse alone
"""
