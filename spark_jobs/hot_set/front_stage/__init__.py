"""The front stage: hot tuples of R in memory.

hot_tuples.py             learns which tuples are hot
reread_tuples.py          tuples that have changed
hot_tuple_files.py        kept over restarts, taken over from rebuilds
hot_tuple_rebuild.py      a rebuild
"""
