"""Jars of Kafka's, fetched from Maven Central once for each user; those of the broker are checked."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark

from spark_jobs.driver.java import java_program
from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import PlatformError

VERSION = "4.3.1"
_CHECKSUMS = Path(__file__).with_name("jars.sha256")
_FETCH_SECONDS = 600


def kafka_jars() -> Path:
    """The jars of Kafka's broker; as of `fetched_jars`.

    Raises:
        PlatformError: they can't be fetched, or are not those that are expected.
    """
    return fetched_jars(f"kafka-{VERSION}", "org.apache.kafka", "kafka_2.13", VERSION, finish=_check)


def fetched_jars(
    name: str, organisation: str, module: str, version: str, finish: Callable[[Path], None] | None = None
) -> Path:
    """A module's jars with all that it needs, fetched from Maven Central once, by the resolver that comes with Spark.

    They are kept in the user's cache folder, for all installations. Takes about a minute the first time. Several
    processes may ask at once.

    Args:
        name: of the folder that keeps them.
        organisation, module, version: as Maven Central has it.
        finish: what is done with the folder of what was fetched before it counts.

    Returns:
        the folder that holds them.

    Raises:
        PlatformError: they can't be fetched.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "freshet"
    jars = folder / name
    with exclusive_lock(folder / "lock", wait=True):
        if not jars.is_dir():
            fetched = folder / "fetched"
            shutil.rmtree(fetched, ignore_errors=True)
            _fetch(folder / "ivy", fetched, [organisation, module, version])
            if finish is not None:
                finish(fetched)
            fetched.rename(jars)
    return jars


def _fetch(cache: Path, target: Path, module: Sequence[str]) -> None:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    pattern = f"{target}/[artifact]-[revision](-[classifier]).[ext]"
    what = ["-dependency", *module, "-confs", "default", "-retrieve", pattern]
    command = [java_program(), "-jar", str(ivy), "-cache", str(cache), *what, "-warn"]
    try:
        finished = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise PlatformError(f"{module[1]} could not be fetched from Maven Central in {_FETCH_SECONDS} s.") from None
    if finished.returncode or not target.is_dir():
        said = (finished.stdout + finished.stderr)[-2000:]
        raise PlatformError(f"{module[1]} could not be fetched from Maven Central. What its resolver says:\n{said}")


def _check(folder: Path) -> None:
    lines = (line.split() for line in _CHECKSUMS.read_text().splitlines())
    wanted = {name: checksum for checksum, name in lines}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    if wanted != found:
        others = ", ".join(sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)))
        raise PlatformError(
            f"What was fetched from Maven Central is not Kafka {VERSION} as it is known here: {others}."
        )
