"""A child process whose memory is bounded and measured, for what would else take all of the machine's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# Of address space allocators reserve far more than they use: its limit only protects the machine.
_RESERVED = 4 << 30
_BEFORE = """
import json, resource, sys
import spark_jobs.source.files.reading, spark_jobs.source.slice_reading
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
resource.setrlimit(resource.RLIMIT_AS, ({reserved}, {reserved}))
given = json.load(sys.stdin)
before = peak()
"""
_AFTER = """
print(json.dumps([result, peak() - before]))
"""


def in_limited_memory(script: str, given: Any, most: int) -> Any:
    """Run a script in a child that may use `most` bytes besides what the imports have taken.

    Args:
        script: sets `result`, of what JSON knows.
        given: what it knows by this name, of what JSON knows.
        most: bytes.

    Raises:
        AssertionError: the child failed, with what it wrote; or it used more.
    """
    code = _BEFORE.format(reserved=_RESERVED) + script + _AFTER
    arguments = [sys.executable, "-c", code]
    ended = subprocess.run(arguments, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-3000:]}"
    result, used = json.loads(ended.stdout)
    assert used < most
    return result
