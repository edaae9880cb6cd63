"""Arrow tables to PostgreSQL's binary COPY format, and which of their values a column can't take.

rows.py            encode(): a table's tuples as a file for COPY ... FROM STDIN (FORMAT binary)
column_encoder.py  what encoders have in common: a column's type, what it takes, how its fields are laid out
numbers_and_times.py  decimals.py  characters.py    the encoders
"""
