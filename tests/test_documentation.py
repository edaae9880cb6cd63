"""The pages that readers are sent to: their links lead somewhere, and the reference is that of the models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_jobs.authoring.reference import reference
from spark_jobs.settings import PROJECT_ROOT

PAGES = [PROJECT_ROOT / "README.md", *sorted((PROJECT_ROOT / "docs").glob("*.md"))]
_CODE = re.compile(r"```.*?```|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", _CODE.sub("", page.read_text()))
    assert [link for link in links if not link.startswith("https://") and not leads_somewhere(page, link)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    readme = PAGES[0].read_text()
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name}" not in readme] == []


def test_the_reference_is_that_of_the_models() -> None:
    page = PROJECT_ROOT / "docs" / "reference.md"
    assert page.read_text() == reference(), "`freshet reference > docs/reference.md` writes it anew"
