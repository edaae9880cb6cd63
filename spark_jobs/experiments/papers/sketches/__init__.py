"""Figures of 001, first part: skimmed sketches.

join_size_error.py  how far off estimates are: Fig. 5
"""
