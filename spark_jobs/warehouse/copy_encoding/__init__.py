"""Arrow tables to PostgreSQL's binary COPY format, and which of their values a column can't take.

rows.py        encode(): a table's tuples as a file for COPY ... FROM STDIN (FORMAT binary)
catalogue.py   which encoder serves which type
encoder.py     what encoders have in common
field.py       how fields are laid out in the format
numbers.py  decimals.py  characters.py  instants.py  uuids.py  octets.py    the encoders
"""
