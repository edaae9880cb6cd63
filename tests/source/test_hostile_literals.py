"""No literal of any type ends the process that decodes it: the last time one did, it stopped its stream for good."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.source.hostile_decoding import TYPES


@pytest.mark.parametrize("record_format", ["json", "csv"])
def test_hostile_literals_of_each_type_cost_themselves_alone(record_format: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.source.hostile_decoding", record_format],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]} {done.stderr[-2000:]}"
    told = json.loads(lines[-1])
    assert told.keys() == {kind for kinds in TYPES.values() for kind in kinds}
    assert all(counts["sound"] and counts["malformed"] for kind, counts in told.items() if kind != "string")
