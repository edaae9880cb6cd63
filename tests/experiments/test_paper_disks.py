"""Where R lies while a figure is measured: each disk opens it, lets it be read, and closes it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_jobs.errors import WorkloadError
from spark_jobs.experiments.papers.disks import DISKS, disk_of
from spark_jobs.experiments.semi_stream.workloads import zipf
from spark_jobs.settings import WAREHOUSE_URL_VARIABLE, Home

WORKLOAD = zipf(1_050, sorted_by_rank=True)


def unwatched(what: str, share: float) -> None:
    """No progress is shown while R is made."""


@pytest.mark.parametrize("name", DISKS)
def test_a_workload_is_opened_twice_in_pages_of_any_size(
    name: str, tmp_path: Path, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAREHOUSE_URL_VARIABLE, empty_database_url)
    with disk_of(name, Home(tmp_path), unwatched) as disk:
        assert disk.name == name
        for page_rows in (100, 30):
            with disk.open(WORKLOAD, page_rows) as opened:
                assert opened.relation.page_count == -(-1_050 // page_rows)
                started = opened.clock()
                assert opened.relation.read_page(1).keys.tolist() == list(range(page_rows, 2 * page_rows))
                assert opened.clock() > started
                assert opened.relation.pages_of(np.array([page_rows])).tolist() == [1]
                assert (opened.processor is None) == (not name.startswith("virtual"))


def test_an_unknown_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no disk 'floppy'"), disk_of("floppy", Home(tmp_path), unwatched):
        pass
