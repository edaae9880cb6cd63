"""The figures of 001, second part: PJoin beside XJoin.

figures.py         all of them
punctuated_run.py  one run
"""
