"""What `freshet new` refuses, and what it writes of names that others have chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.authoring.new_pipeline import definition_text, write_definition
from spark_jobs.authoring.sample import read_sample
from spark_jobs.definition import load_definition
from spark_jobs.errors import FreshetError

EVENT = '{"id": 1, "at": "2026-01-05T09:30:00Z"}\n'


def text_of(name: str, sample: Path) -> str:
    return definition_text(name, read_sample(sample), sample.name)


def test_a_name_of_a_sample_writes_no_key(tmp_path: Path) -> None:
    sample = tmp_path / "f\nvalidation: {expectations: [{sql: {name: x, rows: SELECT}}]}\n#.json"
    sample.write_text(EVENT)
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    definition = load_definition(write_definition(text_of("sales", sample), "sales", pipelines))
    assert (
        definition.validation.expectations
        == load_definition(
            write_definition(text_of("plain", _plain(tmp_path)), "plain", pipelines)
        ).validation.expectations
    )


def test_a_column_whose_name_would_write_a_key_is_refused(tmp_path: Path) -> None:
    sample = tmp_path / "s.json"
    sample.write_text('{"id": 1, "at": "2026-01-05T09:30:00Z", "a`\\nname: x": 2}\n')
    with pytest.raises(FreshetError, match=r"a`\\\\x0aname"):
        text_of("sales", sample)


@pytest.mark.parametrize("name", ["../../x", "a b", "1st", "", "a\nb"])
def test_a_name_that_is_none_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(FreshetError, match="is no pipeline's name"):
        write_definition(text_of("sales", _plain(tmp_path)), name, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["plain.json"]


def _plain(folder: Path) -> Path:
    sample = folder / "plain.json"
    sample.write_text(EVENT)
    return sample
