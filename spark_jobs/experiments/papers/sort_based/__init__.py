"""The figures of 004: the temporal progressive merge join, n-way and as a tree of binary joins.

interval_joins.py     the set-up
results_over_time.py  Fig. 2
changing_rates.py     Fig. 3
page_accesses.py      pages read and written
"""
