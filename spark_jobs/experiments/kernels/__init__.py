"""`freshet bench kernels`: speed of decoding, and of the joins' own code when reading R costs nothing; on one core.

kernel_benchmark.py                       runs all of these; measured_figure.py: one line of it
record_decoding.py  topic_reading.py      from a landed file's bytes, or a topic's records, to arrivals
own_work.py  queue_lengths.py             a join's work per tuple and step
front_stage_probes.py  hit_ratio.py       how fast a front stage is, and how often it hits
page_loads.py                             beside the fewest that are possible
first_call.py                             how soon a fresh worker has joined its first tuple
hash_joins.py  multi_way_looks.py         joins of streams: what a tuple costs, with a partner and without
temporal_joins.py  run_merges.py          the temporal join; runs that are merged
punctuated_joins.py                       what punctuations cost and save
sketch_updates.py                         counters of a sketch
"""
