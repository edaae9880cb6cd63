"""Java's classes in an archive, from which Spark starts with half of the processor time.

Most of what Java does until Spark runs is to read, check and link ten thousand classes. It can keep what comes of that
as a file, and map it: "class data sharing". A driver that finds none notes its classes, and when it has run for a while
it has the file made; later Sparks of the installation start from it. One that does not fit, Java leaves alone.
"""

from __future__ import annotations

import hashlib
import logging
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from spark_jobs.private_files import is_of_others
from spark_jobs.settings import Home

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

# By then a driver has loaded its classes. To make the archive takes half a minute of what processor time is left over.
_SETTLED_SECONDS = 60.0
_LISTENING_SECONDS = 0.5
_IDLE_PRIORITY = 19
# Otherwise Java tells on its standard output of each class that it can't archive, and of an archive that does not fit.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_NOTING = "-XX:DumpLoadedClassList="


def class_options(home: Home, java: Path, *, noting: bool) -> str:
    """Options of a Java that is to run Spark: from the archive; where there is none, maybe that it notes its classes.

    Args:
        home: the installation, which keeps the archive.
        java: the program.
        noting: whether who starts it runs `archiving_classes`.
    """
    built = java.stat().st_mtime_ns if java.exists() else 0
    of = hashlib.sha256(f"{java.resolve()} {built} {version('pyspark')}".encode()).hexdigest()[:16]
    archive = home.java / f"spark-{of}.jsa"
    if archive.exists():
        if is_of_others(archive):
            _log.warning("%s can be written by other users, and is not used: Java runs what it holds", archive)
            return ""
        return f'{_QUIET} -XX:SharedArchiveFile="{archive}"'
    if not noting:
        return ""
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f'{_NOTING}"{archive.with_suffix(f".{uuid4().hex}.classes")}"'


@contextmanager
def archiving_classes(spark: Callable[[], SparkContext]) -> Iterator[None]:
    """Have the archive made while the block runs, if this Spark's Java notes its classes.

    Args:
        spark: waits for the context.
    """
    ended = threading.Event()
    archiving = threading.Thread(target=_archive_settled, args=(spark, ended), name="java-classes", daemon=True)
    archiving.start()
    try:
        yield
    finally:
        ended.set()
        archiving.join()


def archive_classes(noted: Path, program: Path, class_path: str, ended: threading.Event) -> bool:
    """Make the archive; whether it is there.

    Args:
        noted: where a Java has noted its classes, or still does.
        program: that Java.
        class_path: its class path.
        ended: set when there is no time any more.
    """
    archive = noted.with_suffix("").with_suffix(".jsa")
    if archive.exists():
        return True  # another driver was quicker
    classes, written = noted.with_suffix(".whole"), noted.with_suffix(".written")
    content = noted.read_bytes()
    classes.write_bytes(content[: content.rfind(b"\n") + 1])  # the last line may be half written
    command = [
        *("nice", "-n", str(_IDLE_PRIORITY), str(program), *_QUIET.split(), "-Xmx512m", "-Xshare:dump"),
        *(f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={written}", "-cp", class_path),
    ]
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as making:
            while making.poll() is None:
                if ended.wait(_LISTENING_SECONDS):
                    making.kill()
        if making.returncode:
            return False
        written.chmod(0o600)
        written.replace(archive)
        for outdated in archive.parent.glob(f"{archive.stem}.*.*"):  # those of drivers that were killed, too
            outdated.unlink(missing_ok=True)
        return True
    finally:
        classes.unlink(missing_ok=True)
        written.unlink(missing_ok=True)


def _archive_settled(spark: Callable[[], SparkContext], ended: threading.Event) -> None:
    try:
        jvm: Any = spark()._jvm
        started_with = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
        noted = [Path(option.removeprefix(_NOTING)) for option in started_with if option.startswith(_NOTING)]
        program = Path(jvm.java.lang.System.getProperty("java.home")) / "bin" / "java"
        class_path = jvm.java.lang.System.getProperty("java.class.path")
        for classes in noted:
            made = ended.wait(_SETTLED_SECONDS) or archive_classes(classes, program, class_path, ended)
            if not made and not ended.is_set():
                _log.warning(
                    "%s can make no archive of its classes, so that each driver starts with twice the processor time, "
                    "and tries again: another Java (JAVA_HOME) may be able to",
                    program,
                )
            classes.unlink(missing_ok=True)
    except Exception as error:  # the driver does without
        _log.info("no archive of Java's classes was made: %s", error)
