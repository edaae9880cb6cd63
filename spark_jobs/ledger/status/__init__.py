"""How fresh the warehouse is, from the warehouse alone.

pipeline_status.py   read_status: everything about every pipeline, put together of
  driver_states.py     the newest driver, and the state that follows
  ledger_reading.py    its batches: sums, and the window that ends now
  overload.py          whether the stream keeps up
  rejection.py         whether most tuples become no facts
  lag.py               what has landed and is unread
  verdict.py           what follows from both
  streams.py           the streams of a pipeline that joins several
  lookup_status.py     how lookups are made, and why
  history.py           the last hour and day; steps for charts
  events.py            what has happened: restarts, runs, alerts, changes
  filled_facts.py      how complete accumulating facts are
  objective.py         the share of events that became facts in time, over a day and a month
  backlog.py           tuples that are no facts
  operations.py        reprocessing, caches, validation, alerts
figures.py           the table of figures: key, meaning, unit, where shown
table.py             for the terminal
"""
