"""Loading accumulating facts: one row for each key, which the parts of several streams fill in as they come.

accumulating_batch.py   the open batch as a destination, and the transaction that stores some keys' parts
arrived_parts.py        what a task hands over, cut into chunks by key
parts.py                parts of several streams by key; rows that are put together of them
placing.py              where each part goes: a new row, a row that is there, or it waits
row_filling.py          UPDATEs of rows that are there
waiting_parts.py        parts that wait for their row, as held tuples
closing.py              settles, when a batch is closed, what its transactions could not see of each other
"""
