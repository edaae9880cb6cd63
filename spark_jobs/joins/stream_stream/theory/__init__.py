"""Cost models of the stream-stream joins: what an algorithm does for a tuple, by arithmetic alone.

x_join_model.py         XJoin and its relatives
temporal_join_model.py  the temporal join; merge_join_model.py: PMJ and TPMJ
interval_results.py     how many results intervals have
multi_way_model.py      MJoin and AMJoin
punctuation_model.py    PJoin
choice.py               the algorithm for streams of known rates
"""
