"""The driver of a stream, from its start to its end.

driver_process.py              the process: loads pipelines side by side, each in a thread
stream_job.py                  the life of one: it gets ready, takes the pipeline over, loads, ends
loop.py                        asks the source what is new, opens a batch, runs it, closes it; again and again
batch_run.py                   one batch: planned, run on Spark, checked, closed, learned from
intake.py                      how a batch's tuples come to its front stage: those of one stream (one_stream.py)
several_streams.py             or of several, with how far each of them has come (watermarks.py):
joined_streams.py              that are joined, with which version of their state (join_folder.py),
accumulated_streams.py         or whose parts fill one fact
admission.py  shed_budget.py   how much a batch takes, and how long its back stages may under overload
retry_policy.py                when a batch that failed is tried again
poisoned_batch.py              sets aside what ends the processes that read it
heartbeat.py                   tells that the driver lives, and learns what is wanted of it
session.py  java.py            the SparkContext, which starts from an archive of classes (java_classes.py)
scratch.py                     where Spark puts what tasks exchange and spill
checks.py                      the pipeline and its tables, before anything else;
waiting_for_schema.py          where they do not fit, the driver is there and waits until they do
"""
