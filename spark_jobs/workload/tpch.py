"""TPC-H master data (customer, part, supplier) in the warehouse."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import psycopg2
import psycopg2.extensions
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from psycopg2 import sql

from spark_jobs.errors import WorkloadError
from spark_jobs.settings import Home
from spark_jobs.warehouse.connection import connect
from spark_jobs.workload.tpch_files import Progress, check_scale, generate_tables, in_plain_types

_SCALE_MARK = "TPC-H, scale "
_PATIENCE = timedelta(seconds=5)


@dataclass(frozen=True)
class MasterTable:
    """One table of master data: its name and the surrogate key that facts refer to."""

    name: str
    surrogate_key: str
    shuffle_seed: int

    @property
    def identifier(self) -> sql.Identifier:
        """The table's qualified name, quoted."""
        return sql.Identifier("master", self.name)


MASTER_TABLES = (
    MasterTable("customer", "customer_sk", 1),
    MasterTable("part", "part_sk", 2),
    MasterTable("supplier", "supplier_sk", 3),
)


def seed(warehouse_url: str, home: Home, scale: float, progress: Progress) -> None:
    """Generate TPC-H at a scale and load its master data; does nothing where that is done already.

    The three tables are loaded in one transaction: all or none. The scale is kept as the comment of the
    schema `master`, where `\\dn+` shows it.

    Args:
        warehouse_url: libpq URL of a migrated warehouse.
        home: where the generated files are kept; the order stream reads them too.
        scale: TPC-H scale factor; 1 is 150,000 customers, 200,000 parts, 10,000 suppliers.
        progress: called at each step.

    Raises:
        WorkloadError: another scale or other data is loaded, or the tables are missing.
        WarehouseUnavailableError: the warehouse can't be reached.
    """
    check_scale(scale)
    with contextlib.closing(connect(warehouse_url, application_name="freshet seed", patience=_PATIENCE)) as connection:
        # Found out before the long work of generating, and again where no other session can come in between.
        _is_loaded(connection, scale)
        connection.rollback()
        folder = generate_tables(home, scale, progress)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('freshet.seed'))")
        if _is_loaded(connection, scale):
            for table in MASTER_TABLES:
                progress(f"master.{table.name}", 1.0)
            return
        for table in MASTER_TABLES:
            _load(connection, table, folder, progress)
        with connection.cursor() as cursor:
            cursor.execute("COMMENT ON SCHEMA master IS %s", (f"{_SCALE_MARK}{scale:g}",))
        connection.commit()
        _gather_statistics(connection, progress)


def _is_loaded(connection: psycopg2.extensions.connection, scale: float) -> bool:
    """Whether the master data of this scale is there; refuses whatever else may be there."""
    filled = []
    with connection.cursor() as cursor:
        try:
            for table in MASTER_TABLES:
                cursor.execute(sql.SQL("SELECT EXISTS (SELECT FROM {})").format(table.identifier))
                if cursor.fetchone() == (True,):
                    filled.append(f"master.{table.name}")
        except psycopg2.errors.UndefinedTable as error:
            raise WorkloadError("The warehouse has no master data tables yet. Run `freshet migrate` first.") from error
        cursor.execute("SELECT obj_description('master'::regnamespace, 'pg_namespace')")
        row = cursor.fetchone()
    if not filled:
        return False
    mark = (row[0] if row else None) or ""
    if len(filled) < len(MASTER_TABLES) or not mark.startswith(_SCALE_MARK):
        raise WorkloadError(
            f"{', '.join(filled)} hold data that `freshet seed` did not load. "
            "Empty the tables, or use another database."
        )
    if mark != f"{_SCALE_MARK}{scale:g}":
        raise WorkloadError(
            f"This warehouse holds master data of {mark}, not {scale:g}, and its facts refer to it. "
            "Use the same scale, or another warehouse (FRESHET_HOME or FRESHET_WAREHOUSE_URL)."
        )
    return True


def _load(connection: psycopg2.extensions.connection, table: MasterTable, folder: Path, progress: Progress) -> None:
    with pyarrow.parquet.ParquetFile(folder / f"{table.name}.parquet") as file, connection.cursor() as cursor:
        row_count = file.metadata.num_rows
        surrogates = surrogate_keys(table, row_count)
        columns = sql.SQL(", ").join(map(sql.Identifier, [*file.schema_arrow.names, table.surrogate_key]))
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table.identifier, columns)
        loaded = 0
        for group in range(file.num_row_groups):
            rows = in_plain_types(file.read_row_group(group))
            keys = pa.array(surrogates[loaded : loaded + rows.num_rows])
            cursor.copy_expert(copy, _as_csv(rows.append_column(table.surrogate_key, keys)))
            loaded += rows.num_rows
            progress(f"master.{table.name}", loaded / row_count)
        # Rows that are added later get the identities that follow.
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence(%s, %s), %s)",
            (f"master.{table.name}", table.surrogate_key, row_count),
        )


def surrogate_keys(table: MasterTable, row_count: int) -> np.ndarray:
    """Surrogate keys of the table's rows in the files' order: 1..row_count, always shuffled in the same way.

    In TPC-H's own order they would equal the business keys, and a join that mixed the two up would look right.
    """
    return np.random.default_rng(table.shuffle_seed).permutation(row_count) + 1


def _as_csv(rows: pa.Table) -> io.BytesIO:
    text = io.BytesIO()
    pyarrow.csv.write_csv(rows, text, pyarrow.csv.WriteOptions(include_header=False))
    text.seek(0)
    return text


def _gather_statistics(connection: psycopg2.extensions.connection, progress: Progress) -> None:
    connection.autocommit = True  # VACUUM runs in no transaction
    with connection.cursor() as cursor:
        for number, table in enumerate(MASTER_TABLES):
            progress("statistics", number / len(MASTER_TABLES))
            # Not just ANALYZE: the visibility map lets index-only scans over the keys leave the table alone.
            cursor.execute(sql.SQL("VACUUM (ANALYZE) {}").format(table.identifier))
    progress("statistics", 1.0)
