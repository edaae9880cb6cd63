"""Which tests README's command leaves to `.ci/run`, and under which mark: each guards what another test guards, too, or
what no pipeline runs."""

from __future__ import annotations

import re

# A test has the first mark of which a pattern fits the beginning of its id.
TIERS = {
    # Oldest supported PostgreSQL: what the newest is asked, once more.
    "compat": ("tests/oldest_postgres/",),
    # Figures of the papers and benchmarks, and joins and sketches that run in these alone.
    "figures": (
        "tests/experiments/",
        r"tests/conformance/test_stream_stream\.py::\w+\[(?!temporal_join)",
        r"tests/joins/stream_stream/(?!test_temporal_join|test_windows)",
        "tests/joins/structures/test_(bit_vector_table|sorted_runs)",
        "tests/property/test_joins_(mesh_structures|multi_way|sort_based|theorems)",
        "tests/sketches/test_(join_size|skimmed)",
    ),
    # The page beyond what it is there for: figures that are right, a stream that is in trouble first, an action, its
    # charts, who may see it, and text of others.
    "browser": (
        r"tests/browser/test_page\.py::(?!test_(its_numbers_are|a_stream_that_rejects|a_button_starts|names_and_errors"
        r"|charts_are_drawn_in_the_theme_of_airflow\[dark))",
    ),
    # A driver, a worker, a server that is killed: each once in README's tests, here on topics and in more places.
    "faults": (
        r"tests/faults/test_driver_faults\.py::\w+\[topic",
        r"tests/faults/test_driver_faults\.py::test_a_driver_that_is_fenced_in_the_middle",
        r"tests/faults/test_spark_gone\.py",
    ),
}


def tier(nodeid: str) -> str | None:
    """The mark of a test; None: README's command runs it."""
    return next((mark for mark, places in TIERS.items() for place in places if re.match(place, nodeid)), None)
