"""Decodes hostile literals of each type, of one format: run as a program, for it may not live to tell.

Its output: for each literal that is tried a line with type and literal, before; then how many were sound and malformed.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import Literal

import numpy as np
import pyarrow as pa

from spark_jobs.definition.ddl import parse_columns
from spark_jobs.source.records.decoded import merged
from spark_jobs.source.records.formats import decode_records
from tests.source.hostile_records import HOSTILE, TEXTS, same

_NUMBER = re.compile(r"[-+.0-9][-+.0-9eE]*")
TYPES = {
    name: [name]
    if name != "decimal"
    else ["decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(38,38)", "decimal(1,1)"]
    for name in HOSTILE
}


def records(record_format: str, literal: str) -> Iterator[bytes]:
    """The records that have a literal as their value: in JSON as a token, and as a text."""
    if record_format == "json":
        yield f'{{"v":{literal},"n":1}}'.encode()
        yield json.dumps({"v": literal, "n": 1}, ensure_ascii=False).encode()
    else:
        yield f"{literal},1".encode()
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([literal, 1])
        yield line.getvalue().encode()


def _check_exact(hostile: list[bytes], values: list[Decimal | None]) -> None:
    """Each number is the one that the literal says."""
    with localcontext(prec=1_000):
        for record, value in zip(hostile, values, strict=True):
            if value is not None:
                [literal] = _NUMBER.findall(record.decode().removesuffix("1").removesuffix("1}"))
                assert Decimal(literal) == value, (record, value)


def main(record_format: Literal["json", "csv"]) -> None:
    """Decode each alone, and all together: both have to come to the same."""
    told: dict[str, dict[str, int]] = {}
    for name, kinds in TYPES.items():
        literals = [literal for literal in (*HOSTILE[name], *TEXTS) if "\n" not in literal]
        hostile = [record for literal in literals for record in records(record_format, literal)]
        for kind in kinds:
            columns = parse_columns(f"v {kind}, n int")
            alone = []
            for number, record in enumerate(hostile):
                print(kind, record[:100], flush=True)
                decoded = decode_records(pa.array([record]), record_format, columns)
                alone.append((np.array([number]), decoded))
            print(kind, "all", flush=True)
            together = decode_records(pa.array(hostile), record_format, columns)
            assert same(together, merged(alone)), kind
            if name == "decimal":
                _check_exact(hostile, together.tuples["v"].to_pylist())
            told[kind] = Counter("malformed" if reason else "sound" for reason in together.reasons.to_pylist())
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
