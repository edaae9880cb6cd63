"""A direct file that is not what was written is refused, in words."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_jobs.errors import DirectFileError
from spark_jobs.experiments.direct_file.direct_relation import open_direct_file
from tests.experiments.direct_file.files import write

HEADER_BYTES = 40
TUPLES_AT = 4096
INDEX_AT = 8192  # 100 tuples of 24 bytes fill less than a block


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "r", range(100))


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x40
    path.write_bytes(content)


@pytest.mark.parametrize("offset", range(HEADER_BYTES))
def test_damage_anywhere_in_the_header_is_refused(path: Path, offset: int) -> None:
    flip(path, offset)
    with pytest.raises(DirectFileError, match="Write"):
        open_direct_file(path, 10)


@pytest.mark.parametrize("offset", [INDEX_AT, INDEX_AT + 100, INDEX_AT + 199])
def test_damage_in_the_index_is_refused(path: Path, offset: int) -> None:
    flip(path, offset)
    with pytest.raises(DirectFileError, match=r"index of .* is damaged"):
        open_direct_file(path, 10)


@pytest.mark.parametrize("offset", [TUPLES_AT, TUPLES_AT + 100, TUPLES_AT + 100 * 24 - 1])
def test_damage_in_the_tuples_is_found_by_verifying(path: Path, offset: int) -> None:
    flip(path, offset)
    with pytest.raises(DirectFileError, match="tuples of the direct file do not fit their checksum"):
        open_direct_file(path, 10).verify()


@pytest.mark.parametrize("size", [0, 10, 4096, 5000, 8192, 12287])
def test_a_truncated_file_is_refused(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DirectFileError, match=r"too few|truncated"):
        open_direct_file(path, 10)


def test_a_file_truncated_while_it_is_read_is_told(path: Path) -> None:
    relation = open_direct_file(path, 10)
    with path.open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(DirectFileError, match="truncated"):
        relation.read_page(0)


def test_another_version_is_named(path: Path) -> None:
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 8, 7)
    path.write_bytes(content)
    with pytest.raises(DirectFileError, match=r"has version 7 .* reads version 1"):
        open_direct_file(path, 10)


def test_a_file_that_is_not_one_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"id,name\n" * 2000)
    with pytest.raises(DirectFileError, match="is no direct file"):
        open_direct_file(other, 10)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DirectFileError, match="No such file"):
        open_direct_file(tmp_path / "r", 10)
