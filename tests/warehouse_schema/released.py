"""A warehouse as release 0.2.0 left it, with what its pipelines had read.

That release made it: `freshet migrate`, `seed --scale 0.001`, `generate fulfilment --orders 250 --past` with
`--bad-share 0.08`, `load orders order_lines fulfilment --once`, a change of three customers, `requeue`, `reprocess` and
`validate`. The rows of the pipeline `visits` were written by hand: they fill the tables that all this leaves empty, and
hold a tuple of each fate.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from contextlib import closing
from pathlib import Path

import psycopg2

_DATA = Path(__file__).parent / "data"


def restore(url: str, home: Path) -> None:
    """Fill an empty database, and let the events of its pipelines land.

    Args:
        url: of the database; its server has the roles.
        home: FRESHET_HOME of the pipelines.
    """
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(gzip.decompress((_DATA / "released_0_2_0.sql.gz").read_bytes()).decode())
        cursor.execute("SELECT DISTINCT pipeline, unit, modified_ns FROM freshet.source_range WHERE state = 'loaded'")
        ranges = cursor.fetchall()
    landing = home / "landing"
    with tarfile.open(_DATA / "released_0_2_0_landing.tar.gz") as archive:
        archive.extractall(landing, filter="data")
    for pipeline, unit, modified_ns in ranges:
        # Of several streams the unit begins with the stream's name; an archive keeps no nanoseconds.
        file = landing / (unit if "/" in unit else f"{pipeline}/{unit}")
        if file.exists():
            os.utime(file, ns=(modified_ns, modified_ns))
