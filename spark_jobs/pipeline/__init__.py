"""The Spark plan that takes a tuple of a pipeline (pipeline_definition) from its source to its fact.

    source/                    landed files as stream tuples
    tasks/                     a tuple's way through Spark's tasks: front stage, exchanges, back stages, loading
    lookups/                   the driver's plan of the joins: memory, pages of R, costs, snapshots
    front_stage/               the hot tuples of R: learned, kept in files, published to the tasks, rebuilt
    watch/                     changes of R, and how they reach the front stages
    cache_files/               versioned files that a rebuild writes and a running job takes up

The driver of a stream: stream_job.py plans each batch and keeps the ledger, stream_query.py runs the query,
driven_lookups.py carries lookups, front stages and the watch from batch to batch, admission.py cuts batches,
shed_budget.py bounds them under overload, heartbeat.py tells that it lives, session.py and checks.py come before it.
cache_rebuild.py is the job that rebuilds caches.
"""
