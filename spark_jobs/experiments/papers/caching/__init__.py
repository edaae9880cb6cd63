"""Figures of 003: the front stage before MESHJOIN, HYBRIDJOIN and INLJ, and load shedding.

caching_data.py             the data
cached_rates.py             service rates: Fig. 5(a) to 5(d), 6, 9(f)
data_sets.py                other data: Fig. 5(e) to 5(g)
load_shedding.py            Fig. 7, 8
front_stage_sensitivity.py  Fig. 9(a) to 9(e)
"""
