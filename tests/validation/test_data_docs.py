"""The pages on validations: what they say, how many are kept, and what they load from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.validation.sales import Sales

FILLED = {"not_null": ["colour"]}
NO_BLUE = {"sql": {"name": "nothing is <blue>", "rows": "SELECT sale_id FROM {facts} WHERE colour = 'blue'"}}


class Text(HTMLParser):
    """The words of a page, without its style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self._style = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._style = tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._style and data.strip():
            self.words.append(" ".join(data.split()))

    def __str__(self) -> str:
        return " ".join(self.words)


def pages(folder: Path) -> list[Path]:
    return sorted((folder / "validations").rglob("*.html"))


def test_a_failed_expectation_stands_on_its_validations_page(sales: Sales) -> None:
    sales.load([*sales.sales(6), *sales.sales(2, colour=None), *sales.sales(1, colour="blue")])
    report = sales.validate(sales.definition(FILLED, NO_BLUE, {"freshness": {"p99": "5s"}}, "row_conservation"))
    assert report.page is not None
    page = sales.home.data_docs("sales") / report.page
    assert pages(sales.home.data_docs("sales")) == [page]
    text = str(Text(page.read_text()))
    assert "Status: Failed" in text
    assert "values must never be null. 2 unexpected values found. ≈22.22% of 9 total rows." in text
    assert "nothing is <blue> 1 unexpected values found." in text
    assert "99% of the facts could be read within 5 s of their event" in text
    assert "Must have exactly 9 rows." in text
    ((stored,),) = sales.query("SELECT page FROM freshet.validation")
    assert stored == report.page


def test_pages_need_no_scripts_and_no_other_server(sales: Sales) -> None:
    sales.load(sales.sales(2, colour="<script>alert(1)</script>"))
    report = sales.check({"in_set": {"column": "colour", "values": ["green"]}})
    assert report.result == "failed"
    folder = sales.home.data_docs("sales")
    for page in [folder / "index.html", *pages(folder)]:
        html = page.read_text()
        assert "<script" not in html
        assert not re.search(r"<(link|img|iframe|script)[^>]*//", html)
        assert "<style>" in html


def test_the_newest_validations_are_kept_and_listed(sales: Sales, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.validation.gx.suite_run.KEPT", 2)
    sales.load(sales.sales(2))
    reports = [sales.check(FILLED) for _ in range(3)]
    sales.query("UPDATE shop.sale SET colour = NULL")
    reports.append(sales.check(FILLED))
    folder = sales.home.data_docs("sales")
    assert {str(page.relative_to(folder)) for page in pages(folder)} == {report.page for report in reports[-2:]}
    listed = str(Text((folder / "index.html").read_text()))
    newest, former = (f"validation-{report.validation_id}" for report in reversed(reports[-2:]))
    assert re.search(rf"failed {newest} .* passed {former} ", listed)
    assert f"validation-{reports[0].validation_id} " not in listed
