"""Figures of 002: AMJoin beside MJoin.

five_streams.py  the data
joining.py       what a tuple costs: Fig. 5, 6
overflow.py      too little memory: Fig. 7
"""
