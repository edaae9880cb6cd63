"""The end of a driver's log, as the page shows it: of files in this installation's folder of logs, without secrets."""

from __future__ import annotations

import re
from pathlib import Path

from airflow.sdk.log import redact

from spark_jobs.launch.session_process import log_tail
from spark_jobs.settings import home
from spark_jobs.shown_text import shown_text

# Up to the last @: a password may hold some.
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^\s/:@]*):\S+@")
_NAMED_SECRET = re.compile(
    r"""((?:password|passwd|secret|token)["']?\s*[:=]\s*)("[^"\n]*"|'[^'\n]*'|\S+)""", re.IGNORECASE
)


_DRIVERS_LOG = re.compile(r"driver-\w+\.log")


def log_end(file: str | None) -> list[str]:
    """The last lines of the log; a line that says why there are none.

    Args:
        file: its path, as the driver has told it to the warehouse: only one among this installation's logs is read.
    """
    if file is None:
        return ["(no driver has begun a log)"]
    path, logs = Path(file).resolve(), home().logs.resolve()
    if path.parent != logs or not _DRIVERS_LOG.fullmatch(path.name):  # others tell what other users have asked for
        return [f"(it is not among the drivers' logs of this installation, {logs})"]
    if not path.exists():
        return ["(it is not on this host, or was deleted)"]
    lines = _NAMED_SECRET.sub(r"\1***", _PASSWORD_IN_URL.sub(r"\1:***@", log_tail(path))).split("\n")
    return [shown_text(str(redact(line)).rstrip("\r")) for line in lines]
