"""Bytes to arrow: decodes the records of every format, by one contract. `formats.py` is the table of them.

What each type of a stream's columns accepts in each format is written down in this folder's README.md.
A record that is malformed costs itself only. Imports neither Spark nor psycopg2: tasks, reprocessing and the proof
decode alike.
"""
