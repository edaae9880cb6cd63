"""The site's pages: the project's own, where they lie, so that their links hold; and docstrings, a page a package."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
_SHOWN = (".md", ".png", ".svg", ".yaml", ".yml", ".json", ".css", "LICENSE")
_FOLDERS = (".readme", "dags", "docs", "spark_jobs")
_CODE = "code"
# Benchmarks and the demo's generators are not there to be imported.
_NOT_CODE = {"experiments"}


def on_config(config: Any) -> Any:
    """Put the packages at the end of the navigation."""
    packages = [{package: f"{_CODE}/{package}.md"} for package in _packages()]
    config.nav.append({"Code": packages})
    return config


def on_files(files: Files, config: Any) -> Files:
    """The project's pages and what they show, in place of what lies in this folder."""
    chosen = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE")]
    for folder in _FOLDERS:
        chosen += [path for path in sorted((ROOT / folder).rglob("*")) if path.name.endswith(_SHOWN)]
    pages = [File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)) for path in chosen]
    for package, modules in _packages().items():
        text = "\n".join([f"# {package}\n", *(f"::: {module}\n" for module in modules)])
        pages.append(File.generated(config, f"{_CODE}/{package}.md", content=text))
    return Files([*pages, *(file for file in files if not file.src_uri.endswith(".py"))])


def _packages() -> dict[str, list[str]]:
    """Each package of the product, with its modules that have something public."""
    found = defaultdict(list)
    for path in sorted((ROOT / "spark_jobs").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if len(parts) > 2 and parts[1] not in _NOT_CODE:
            found[parts[1]].append(".".join(part for part in parts if part != "__init__"))
    return dict(found)
