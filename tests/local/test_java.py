"""The Java that Spark runs on."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from spark_jobs.driver.java import java_environment
from spark_jobs.settings import Home


def test_a_java_that_knows_none_of_the_compilers_options_starts_all_the_same(tmp_path: Path) -> None:
    environment = java_environment(Home(tmp_path / "home"))
    options = shlex.split(environment["SPARK_SUBMIT_OPTS"].replace("Tier4", "NoSuchTier"))
    assert any("NoSuchTier" in option for option in options)
    homes = environment.get("JAVA_HOME", os.environ.get("JAVA_HOME"))
    java = shutil.which("java") if homes is None else str(Path(homes) / "bin" / "java")
    assert java is not None
    started = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stdout + started.stderr
