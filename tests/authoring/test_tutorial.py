"""The tutorials, typed as they stand: README's, and the one from Kafka."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

from spark_jobs.local.embedded_kafka.broker import KafkaBroker
from spark_jobs.settings import PROJECT_ROOT, WAREHOUSE_URL_VARIABLE
from tests.kafka_broker import Topic

SECTION = "Your own pipeline in ten minutes"


def steps(page: str, heading: str) -> list[str]:
    """The shell blocks of a section of a page."""
    section = (PROJECT_ROOT / page).read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def typed(blocks: list[str], folder: Path, warehouse_url: str, **variables: str) -> list[str]:
    """What each block prints, in one shell that ends at the first command that fails."""
    marked = "".join(f"{block}\necho END-OF-BLOCK\n" for block in blocks)
    script = f"set -euo pipefail\n{marked}"
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": path, WAREHOUSE_URL_VARIABLE: warehouse_url} | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout.split("END-OF-BLOCK\n")[:-1]


def test_a_reader_gets_through(tmp_path: Path, warehouse_url: str) -> None:
    prepared, defined, loaded, retried = typed(steps("README.md", SECTION), tmp_path, warehouse_url)
    assert "INSERT 0 2" in prepared
    assert "Pipeline sales is ready to load." in defined
    status, *_ = loaded.split(" article_sk ")
    for told in ("stopped", "arrived", "unmatched"):
        assert told in status, "load ends with the status of what it loaded"
    assert re.search(r"1 \|\s+100 \|\s+12.50\s+2 \|\s+101 \|\s+3.00", loaded)
    assert re.search(r"\[3\]\s+\|", loaded)
    assert "holds" in loaded
    assert "holds" in retried


def test_a_reader_with_a_topic_gets_through(tmp_path: Path, warehouse_url: str, broker: KafkaBroker) -> None:
    preparing, defining, *_ = steps("README.md", SECTION)
    sample = preparing.split("<<END\n")[1].split("END\n")[0]
    Topic(broker, "sales").send(sample.encode().splitlines())
    blocks = [preparing, defining, *steps("docs/kafka.md", "Your own topic in ten minutes")]
    *_, loaded = typed(blocks, tmp_path, warehouse_url, KAFKA=broker.servers)
    assert "topic sales" in loaded
    assert "Pipeline sales is ready to load." in loaded
    assert re.search(r"1 \|\s+100 \|\s+12.50\s+2 \|\s+101 \|\s+3.00", loaded)
    assert "holds" in loaded
