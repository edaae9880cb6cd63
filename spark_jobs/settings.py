"""Where Freshet keeps its state and finds its warehouse: FRESHET_HOME, FRESHET_WAREHOUSE_URL, FRESHET_PIPELINES."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
PROJECT_ROOT = _PACKAGE.parent
# DAGs, plugin and schema: beside the package in a checkout, inside it in a wheel.
SHIPPED = _PACKAGE / "shipped" if (_PACKAGE / "shipped").is_dir() else PROJECT_ROOT
HOME_VARIABLE = "FRESHET_HOME"
WAREHOUSE_URL_VARIABLE = "FRESHET_WAREHOUSE_URL"
PIPELINES_VARIABLE = "FRESHET_PIPELINES"


@dataclass(frozen=True)
class Home:
    """The folder that holds all state of one installation; every path below it is named here."""

    root: Path

    @property
    def postgres(self) -> Path:
        """Data directory of the embedded PostgreSQL."""
        return self.root / "postgres"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def logs(self) -> Path:
        """One log file per process, named after it."""
        return self.root / "logs"

    @property
    def master_data(self) -> Path:
        """Generated TPC-H tables, as Parquet."""
        return self.root / "tpch"

    @property
    def workload_state(self) -> Path:
        """Where the workload generator remembers which events it has written."""
        return self.root / "workload.json"

    @property
    def workload_rate(self) -> Path:
        """Says the rate of the workload that runs: orders per second, as text."""
        return self.root / "workload-rate"

    @property
    def workload_under_way(self) -> Path:
        """Payments and shipments that the workload lets land in its next run."""
        return self.root / "workload-under-way"

    @property
    def auctions_state(self) -> Path:
        """Where the generator of auctions remembers which events it has written."""
        return self.root / "workload-auctions.json"

    @property
    def overload_pipelines(self) -> Path:
        """The pipelines as `freshet up --overload` defines them."""
        return self.root / "pipelines-overload"

    @property
    def kafka(self) -> Path:
        """Data of the embedded broker of Kafka."""
        return self.root / "kafka"

    @property
    def java(self) -> Path:
        """What Java starts from: an archive of Spark's classes, and the launcher of a packaged Java."""
        return self.root / "java"

    @property
    def bytecode(self) -> Path:
        """Compiled modules, where none may be kept beside the source."""
        return self.root / "bytecode"

    @property
    def spark(self) -> Path:
        """What Spark exchanges and spills: a folder for each driver that runs on one machine."""
        return self.root / "spark"

    @property
    def kafka_pipelines(self) -> Path:
        """The pipelines as `freshet up --source kafka` defines them."""
        return self.root / "pipelines-kafka"

    @property
    def processes(self) -> Path:
        """One file per process that runs in the background, with its id and start time."""
        return self.root / "processes"

    def driver_log(self, pipeline: str) -> Path:
        """Output of the pipeline's Spark driver when Airflow launches it."""
        return self.logs / f"driver-{pipeline}.log"

    def landing(self, pipeline: str) -> Path:
        """Folder in which the events of the shipped pipelines arrive."""
        return self.root / "landing" / pipeline

    def caches(self, pipeline: str) -> Path:
        """Files of the pipeline's front stages and of the copies of its relations."""
        return self.root / "caches" / pipeline

    def join_state(self, pipeline: str) -> Path:
        """What waits in the join of the pipeline's streams: a folder for each bucket."""
        return self.root / "state" / pipeline

    def data_docs(self, pipeline: str) -> Path:
        """Great Expectations' pages on the validations of the pipeline's facts."""
        return self.root / "data_docs" / pipeline


def home() -> Home:
    """The installation's home: $FRESHET_HOME, or .freshet in the current folder; always absolute."""
    return Home(Path(os.environ.get(HOME_VARIABLE) or ".freshet").expanduser().resolve())


def pipelines_folder() -> Path:
    """The folder of pipeline definitions: $FRESHET_PIPELINES, or dags/pipelines of the project."""
    configured = os.environ.get(PIPELINES_VARIABLE)
    return Path(configured).expanduser().resolve() if configured else SHIPPED / "dags" / "pipelines"
