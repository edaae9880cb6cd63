"""Reprocessing: makes facts of shed tuples, and of unmatched ones whose master data has arrived.

    request.py              what a run is asked to do
    reprocessing_job.py     the driver: chunk by chunk, until none is left or the stream needs the machine
    run_ledger.py           the rows of freshet.reprocessing_run
    due_tuples.py           which held tuples are due, and where they lie
    batch_plan.py           Spark's tasks; from the front task on they are the stream's
    held_reading.py         tasks read their tuples straight from PostgreSQL, by the stream's decoder
    settlement.py           the transaction that makes facts, and deletes or changes the held rows
    chunk_failure.py        chunks that fail for a reason of their own
    requeue.py              rejected tuples become due again
    late_due.py             which late tuples of several streams can be joined after all; late_tuples.py: joins them
    landed_events.py        the landed events of several streams, as committed batches have read them
    state_rebuilding.py     makes a join's lost state anew from these
    waiting_events.py       which events of several streams wait to be joined
    held_tuples.py          why tuples are held; forgets some

A held tuple changes in place or becomes a fact in the transaction that deletes it, and a transaction settles only
rows that are what they were when they were read. So runs may be killed, repeated and run beside each other and
the stream, whose loaders find a held event id in freshet.held_tuple or, once that row is gone, in the fact table.
"""
