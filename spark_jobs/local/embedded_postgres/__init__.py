"""An embedded PostgreSQL server, for the user who starts it and no other user of the machine.

server.py        EmbeddedPostgres: the life of a server
server_user.py   the user it runs as, who is not root, and PostgreSQL's programs, where that user can run them
access.py        who may connect, and where its socket lies
"""

import warnings

with warnings.catch_warnings():
    # The package looks for a runtime folder for a default of its own, which is not used here.
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
    from spark_jobs.local.embedded_postgres.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres"]
