"""What stops `freshet up` before it starts anything. The whole of it is run by tests/acceptance."""

import socket
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.durable_files import exclusive_lock
from spark_jobs.errors import PipelineDefinitionError, PlatformError, WorkloadError
from spark_jobs.local.up import run_up


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRESHET_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def up(port: int, scale: float = 0.01) -> int:
    return run_up(None, scale, port, console=Console(quiet=True), rate=1.0)


def test_only_one_runs_in_a_home(installation: Path) -> None:
    with (
        exclusive_lock(installation / "up.lock", wait=False),
        pytest.raises(PlatformError, match=r"is already running in .* choose another FRESHET_HOME"),
    ):
        up(port=0)


def test_a_port_in_use_is_told_before_anything_is_started(installation: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PlatformError, match=r"Port \d+ is not available: .* Choose another with --port"):
            up(port=other.getsockname()[1])
    assert not (installation / "postgres").exists()


def test_a_faulty_pipeline_is_told_before_anything_is_started(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESHET_PIPELINES", str(tmp_path))
    (tmp_path / "orders.yaml").write_text("name: orders\n")
    with pytest.raises(PipelineDefinitionError, match=r"orders\.yaml"):
        up(port=0)
    assert not installation.exists()


def test_a_scale_that_cannot_be_is_told_before_anything_is_started(installation: Path) -> None:
    with pytest.raises(WorkloadError, match="scale"):
        up(port=0, scale=-1.0)
    assert not installation.exists()


@pytest.mark.parametrize(("before", "after"), [(None, 0o700), (0o755, 0o755)], ids=["new", "opened"])
def test_what_holds_passwords_logs_or_data_is_closed_to_other_users(
    installation: Path, before: int | None, after: int
) -> None:
    """A home that was opened, to land events say, stays so."""
    if before is not None:
        (installation / "airflow").mkdir(parents=True)
        installation.chmod(before)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PlatformError, match="is not available"):
            up(port=other.getsockname()[1])
    modes = {path.name: path.stat().st_mode & 0o777 for path in (installation, *installation.iterdir())}
    assert modes["home"] == after
    assert [modes[name] for name in ("airflow", "logs", "caches", "data_docs")] == [0o700] * 4
