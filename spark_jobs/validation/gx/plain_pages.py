"""How the pages of Data Docs look: readable without scripts, and without anything from other servers.

They are shown behind Airflow's login, where foreign scripts have no business.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from great_expectations.render.view import DefaultJinjaPageView

_STYLE = Path(__file__).with_name("plain_pages.css")
_SCRIPTS = re.compile(r"<script\b.*?</script>", re.DOTALL)
_FOREIGN = re.compile(r"<(?:link|img)\b[^>]*(?:https?:)?//[^>]*>")


class PlainPage(DefaultJinjaPageView):
    """Great Expectations' page of a validation, made plain."""

    def render(self, document: Any, template: Any = None, **arguments: Any) -> str:
        """The page as HTML."""
        html = _FOREIGN.sub("", _SCRIPTS.sub("", super().render(document, template, **arguments)))
        return html.replace("</head>", f"<style>{_STYLE.read_text()}</style></head>", 1)


class ValidationList:
    """What the index shows, as the site's builder has collected it."""

    def __init__(self, data_context: Any) -> None:
        """The builder hands over its context; the index needs none."""

    def render(self, index: dict[str, Any]) -> list[dict[str, Any]]:
        """The validations, newest first."""
        return index.get("validations_links", [])


class ListPage:
    """The index: one line for each validation."""

    def __init__(self, **directories: Any) -> None:
        """The builder hands over folders of custom templates; there are none."""

    def render(self, validations: list[dict[str, Any]], **arguments: Any) -> str:
        """The page as HTML."""
        rows = "".join(
            f"<tr><td>{'passed' if each['validation_success'] else 'failed'}</td>"
            f'<td><a href="{escape(each["filepath"])}">{escape(str(each["run_name"]))}</a></td>'
            f"<td>{each['run_time']:%Y-%m-%d %H:%M:%S} UTC</td></tr>"
            for each in validations
        )
        return (
            "<!DOCTYPE html><html><head><meta charset='UTF-8'><title>Validations</title>"
            f"<style>{_STYLE.read_text()}</style></head><body><h1>Validations</h1>"
            f"<table><tr><th>Result</th><th>Validation</th><th>When</th></tr>{rows}</table></body></html>"
        )
