"""Arrays and compiled kernels of the joins: hash codes, keys, stream tuples by page and by key, pages, frequencies.

key_table.py  key_chains.py              distinct keys, numbered; tuples in chains by key
stream_tuples.py  keyed_tuples.py        tuples that wait, by page; by key, where they may leave at any time
chunked_tuples.py  arrival_queue.py      tuples that leave chunk by chunk; one by one
stream_buffer.py                         tuples that the join has not looked at
page_probe.py  page_waits.py             waiting tuples joined with a page; how long those of each page wait
page_counters.py                         how useful each page is
frequency_recorder.py                    how often keys came; frequency_sketch.py: of far more keys
hashed_streams.py  multi_way_probe.py    several streams in hash chains; a tuple joined with all others
bit_vector_table.py                      which streams have a key
sorted_lookup.py  sorted_runs.py         sorted values in sorted values; runs on disk
sweep.py  sweep_area.py                  tuples joined in order of key; those that still find partners
interval_order.py                        intervals that are almost in order
flags.py                                 flags that are never taken back
"""
