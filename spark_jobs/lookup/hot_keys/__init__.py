"""The hot keys of a lookup, and their tuples of R, the hot set: what its stream asks for most is joined at once.

Learned from what batches find, published to tasks in versions, as new as R is noticed to be, kept in files.

publishing.py       what the driver publishes to tasks, and until when it stands
learned.py          the driver's hot set: learns, rereads, publishes
hot_tuples.py       what tasks join at once: one version of the hot set, and what has changed of it since
whole_tuples.py     all of R, hot, in two layers: what changes is published over the rest
whole_loading.py    reads all of R, while batches go on without
noticing.py         changes of R, by triggers or by rereading
hot_set_files.py    versions on disk
lookup_watch.py     the watch over one lookup: its hot set as new as R, its files as new as its hot set
relation_watch.py   the thread that does so for all lookups, and tells of it in freshet.cache: cache_table.py
rebuild.py          the job that rebuilds hot sets, and local copies of R
"""
