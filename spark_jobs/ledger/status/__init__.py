"""How fresh the warehouse is, from the warehouse alone.

pipeline_status.py         read_status: everything about every pipeline; the parts below
driver_states.py  ledger_reading.py  reprocessed.py  minutes.py  stages.py  backlog.py  operations.py
overload.py                whether a stream keeps up
table.py                   for the terminal
history.py                 for charts
waiting_work.py            for whoever does what waits to be done
operations_since.py        what was done since a moment
"""
