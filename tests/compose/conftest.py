"""docker-compose.yml as Docker would read it, its secrets filled in."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from spark_jobs.settings import PROJECT_ROOT

FILE = PROJECT_ROOT / "docker-compose.yml"
_SECRET = re.compile(r"\$\{(FRESHET_\w+_SECRET):\?[^}]+\}")


def secret(name: str) -> str:
    """The value that the tests give a secret."""
    return f"test-{name.lower()}"


def filled(text: str) -> str:
    """A text of the file with its secrets put in, and with `$$` read as `$`."""
    return _SECRET.sub(lambda found: secret(found[1]), text).replace("$$", "$")


@pytest.fixture(scope="session")
def compose_text() -> str:
    return FILE.read_text()


@pytest.fixture(scope="session")
def compose(compose_text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(filled(compose_text))
    return content


@pytest.fixture(scope="session")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = compose["services"]
    return found
