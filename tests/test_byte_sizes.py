import pytest

from spark_jobs.byte_sizes import parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("0B", 0),
        ("512k", 2**19),
        ("64MB", 2**26),
        ("64 MiB", 2**26),
        ("1.5GiB", 3 * 2**29),
        ("1t", 2**40),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "64XB", "64 M B", "1e6"])
def test_anything_else_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(text)
