"""Figures of 000: HYBRIDJOIN beside MESHJOIN and index nested loop join.

hybrid_join_data.py   the data
benchmark_stream.py   the stream: Fig. 3, 8, 9
hybrid_join_rates.py  service rates: Fig. 6, 10(c), 10(d), 11
times.py              processing and waiting: Fig. 10(a), 10(b)
"""
