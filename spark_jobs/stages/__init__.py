"""A tuple's way through Spark's tasks.

tuples_way.py                       the way: front stage, then for each lookup an exchange and a back stage
front_task.py                       reads and screens, probes the front stages, loads full hits
screening.py  impossible_keys.py    what can never become a fact
exchange.py                         carries what waits to the task that owns its range of R
back_task.py  back_stage.py         joins it by the lookup's algorithm, until all is settled or the time is spent
opened_relation.py  confirmation.py  pages_waited_for.py  shed_deadline.py
fetching.py  loading.py             columns of R for the tuples, and facts for the warehouse
batch_context.py                    from the driver to the tasks
reports.py  errors.py  obstacles.py  from the tasks to the driver
rehearsal.py  worker_daemon.py      ready before the first tuple: what a worker loads and compiles
"""
