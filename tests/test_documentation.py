"""The pages that readers are sent to: their links lead somewhere, and the reference is that of the models."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from spark_jobs.authoring.reference import reference
from spark_jobs.monitoring.prometheus import metrics_table
from spark_jobs.settings import PROJECT_ROOT

README = PROJECT_ROOT / "README.md"
DOCS = PROJECT_ROOT / "docs"
PAGES = [README, PROJECT_ROOT / "CONTRIBUTING.md", PROJECT_ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
_CODE = re.compile(r"```.*?```|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def names_in(module: Path) -> set[str]:
    """The functions and classes that a module defines anywhere."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, kinds)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", _CODE.sub("", page.read_text()))
    assert [link for link in links if not link.startswith("https://") and not leads_somewhere(page, link)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    readme = README.read_text()
    pages = [
        *DOCS.glob("*.md"),
        *DOCS.glob("*/README.md"),
        PROJECT_ROOT / "CONTRIBUTING.md",
        PROJECT_ROOT / "SECURITY.md",
    ]
    assert [page.name for page in pages if f"({page.relative_to(PROJECT_ROOT)}" not in readme] == []


def test_the_list_of_metrics_is_that_of_the_figures() -> None:
    assert metrics_table() in (DOCS / "operations.md").read_text()


def test_each_module_is_named_where_its_package_says_what_lies_where() -> None:
    """In the docstring of `__init__`, in a README beside it, and what lies in `spark_jobs` also in the architecture."""
    packages = [init.parent for init in (PROJECT_ROOT / "spark_jobs").rglob("__init__.py")]
    assert {str(package): missing for package in packages if (missing := unnamed(package))} == {}


def unnamed(package: Path) -> set[str]:
    """Modules and packages in a package that it does not name as a file or folder, in a table, or as code."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    modules |= {init.parent.name for init in package.glob("*/__init__.py")}
    told = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    pages = [package / "README.md", *([DOCS / "architecture.md"] if package.name == "spark_jobs" else [])]
    told += "".join(page.read_text() for page in pages if page.exists())
    forms = r"\b{0}(\.py|/)|`{0}`|^\|.*\b{0}\b"
    return {name for name in modules if not re.search(forms.format(name), told, re.MULTILINE)}


def test_every_decision_is_in_the_table_of_decisions() -> None:
    folder = DOCS / "decisions"
    table = (folder / "README.md").read_text()
    assert [
        page.name for page in folder.glob("*.md") if page.name != "README.md" and f"({page.name})" not in table
    ] == []


def test_the_invariants_name_code_and_tests_that_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", (DOCS / "invariants.md").read_text())
    missing = []
    for path, name in named:
        is_test = Path(path).name.startswith("test_")
        module = PROJECT_ROOT / ("tests" if is_test else "spark_jobs") / path
        if not module.exists() or not set(filter(None, name.split("."))) <= names_in(module):
            missing.append(f"{path}::{name}")
    assert named
    assert missing == []


def test_the_reference_is_that_of_the_models() -> None:
    page = PROJECT_ROOT / "docs" / "reference.md"
    assert page.read_text() == reference(), "`freshet reference > docs/reference.md` writes it anew"
