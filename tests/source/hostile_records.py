"""Records as writers make them, and as they should not."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from spark_jobs.source.records.decoded import Decoded

NUMBERS = [
    "0", "-0", "1", "-1", "127", "128", "-128", "-129", "32768", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "1.0", "1.5", "-1.50", "1.255", "99999999.99", "99999999.999",
    "100000000", "1e2", "1E+2", "1e-2", "1e-3", "12e-3", "100e-2", "1e400", "-1e400", "1e-400", "1e39", "0.1", "0e5",
    "0e99", "3.4028235677973366e38", "1" * 400, "0." + "0" * 70, "0." + "0" * 70 + "1", "1." + "0" * 50, "+1", "01",
    "1.", ".5", "-", "1_0", "0x1F", "NaN", "Infinity", "-Infinity", "Inf", "-Inf", "-NaN", "nan",
    # Far below zero: arrow's own decimals end the process, or take them for 0.
    "1e-41", "-1E-41", "1e-77", "9999e-77", "1e-999999999", "0.0e-999999999", "1e-100000000", "1e-2147483647",
    "1e-00000000000000041", "0." + "0" * 35 + "e-9", "1" * 30 + "e-9", "1." + "1" * 28 + "e-9", "125e-1",
    "1e99999999999999999999", "0e99999999999999999999", "123456789012345678901234567890123456789", "\u0661",
]  # fmt: skip
TIMES = [
    "2024-01-02", "2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "2024-1-2",
    "2024-01-02T03:04:05", "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05.1",
    "2024-01-02T03:04:05.123456Z", "2024-01-02T03:04:05.1234560Z", "2024-01-02T03:04:05.1234567Z",
    "2024-01-02T03:04:05.1000000000", "2024-01-02T03:04:05+02", "2024-01-02T03:04:05-0230", "2024-01-02T03:04:05+02:30",
    "2024-01-02T03:04:05+23:59", "2024-01-02T03:04:05+24:00", "2024-01-02T03:04", "2024-01-02T03:04Z",
    "2024-01-02T03", "2024-01-02T24:00:00", "2024-01-02T23:59:60", "2024-01-02t03:04:05", "2024-01-02T03:04:05z",
    "2024-01-02T03:04:05 Z", "2024-01-02T03:04:05.", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-01:00", "0000-12-31T23:00:00-01:00", "1700000000", "now", "2024-01-02\n", " 2024-01-02",
]  # fmt: skip
TEXTS = ["", "x", "Köln", "😀", "a\tb", 'a"b', "a\\b", "true", "null", "AQI=", "AQI", "AQ==", "A===", "AR==", "AQ I=",
         "\x7f", "\u2028", "\ufeff", "a,b", "a;b", "'", "NA", *NUMBERS, *TIMES]  # fmt: skip

# What is too long, too large, or off by little, for each type that a column may have.
HOSTILE = {
    "bigint": [
        "9" * 100_000, "-" + "0" * 100_000 + "1", "9223372036854775807.0", "-9223372036854775809", "0x8000000000000000",
    ],
    "int": ["2147483647", "2147483648", "-2147483648", "-2147483649", "2147483648e0", "4294967296", "1e9", "1e10"],
    "smallint": ["32767", "-32768", "-32769", "65535", "65536", "3.2767e4"],
    "tinyint": ["255", "256", "-129", "1.27e2", "128e0"],
    "float": [
        "3.4028236e38", "-3.5e38", "1e-46", "1.17549435e-38", "0." + "0" * 10_000 + "1", "1" * 10_000, "1e+2147483648",
    ],
    "double": [
        "1.7976931348623159e308", "5e-324", "2e-324", "2.2250738585072011e-308", "1e-2147483649", "9" * 400 + "e-400",
    ],
    "decimal": [
        "1e-40", "1e-99", "-0e-999999999", "0." + "9" * 100_000, "9" * 39, "9" * 38 + "e1", "9" * 38 + "e-76",
        "1e2147483648", "1e-9223372036854775809", "." + "0" * 77 + "1", "1" + "0" * 77, "1" + "0" * 77 + "e-77",
        "1e38", "1e-38", "0e-38", "0e38", "1e+00000000000000000000000000000001", "-" * 1_000, "1e" + "9" * 100_000,
        "1e-" + "9" * 100_000,
        # Times a power of ten they are beyond 128 bits: arrow takes what is left of them for the number.
        "2147483648", "-9223372036854775808", "1700000000", "2.147483648e9", "214748364800000000000", "1e21", "987e20",
        "123456789012345678901.5", "-340282366920938463463.4", "99999999999999999999",
    ],
    "boolean": ["TRUE", "tru", "truetrue", "t" * 100_000, "1", "-1", "yes"],
    "string": ["\u202e", "a" * 1_000_000, "\U0010ffff", "\ufffe", "%n%s%x", "$(id)", "\x1b[2J", "e\u0301" * 1_000],
    "date": [
        "-0001-01-01", "99999-01-01", "292278994-08-17", "2024-00-01", "2024-01-32", "2024-13-01", "9" * 100_000,
        "0-0-0",
    ],
    "timestamp": [
        "9999-12-31T23:59:59.9999999Z", "294247-01-10T04:00:54.775808Z", "-290308-12-21T19:59:05.224192Z",
        "2024-01-02T03:04:05." + "9" * 100_000 + "Z", "2024-01-02T99:99:99Z", "2024-01-02T03:04:05+99:99",
        "2024-01-02T03:04:05-00:00", "2024-01-02T03:04:05Z" * 1_000, "9223372036854775807", "-9223372036854775808",
    ],
    "binary": ["=", "====", "A", "AA", "AAA", "A" * 1_000_001, "A" * 1_000_000, "AQI=" * 2, "\x1b", "-_==", "AQ==\t"],
}  # fmt: skip


def same(one: Decoded, other: Decoded) -> bool:
    """Whether two ways of decoding came to the same, to the last bit."""
    return one.reasons.equals(other.reasons) and _bits(one.tuples).equals(_bits(other.tuples))


def rows(decoded: Decoded) -> list[tuple[object, ...] | str]:
    """For each record its values, or the reason why it has none."""
    values = [tuple(row.values()) for row in decoded.tuples.to_pylist()]
    return [reason or row for row, reason in zip(values, decoded.reasons.to_pylist(), strict=True)]


def spoilt(draw: st.DrawFn, record: bytes, pieces: list[bytes]) -> bytes:
    """A record with some bytes replaced, now and then."""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        start = draw(st.integers(0, len(record)))
        end = min(len(record), start + draw(st.integers(0, 3)))
        record = record[:start] + draw(st.sampled_from(pieces)) + record[end:]
    return record


def _bits(table: pa.Table) -> pa.Table:
    plain = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}
    columns = [column.combine_chunks() for column in table.columns]
    return pa.table(
        [column.view(plain[column.type]) if column.type in plain else column for column in columns],
        names=table.column_names,
    )
