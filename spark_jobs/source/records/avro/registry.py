"""Confluent's schema registry: the schemas that records in its wire format name by their ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spark_jobs.errors import SourceAwayError

_ANSWER_SECONDS = 10.0
_MOST_REFERENCES = 100


@dataclass(frozen=True)
class SchemaRegistry:
    """Asks a registry; travels inside pickled tasks only.

    Attributes:
        url: where it answers.
        user: for those that ask who asks; None: it does not.
        password: of the user; in no text of this object.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def schema(self, schema_id: int) -> tuple[str, list[str]] | None:
        """The text of a schema, and those that it refers to, each after those that it needs; None: there is none.

        Raises:
            SourceAwayError: the registry does not answer, or not with a schema.
        """
        found = self._answer(f"/schemas/ids/{schema_id}")
        if found is None:
            return None
        referred: dict[tuple[str, int], str] = {}
        self._refer(found, referred)
        return found["schema"], list(referred.values())

    def _refer(self, found: dict[str, Any], referred: dict[tuple[str, int], str]) -> None:
        for each in found.get("references") or []:
            key = each["subject"], each["version"]
            if key in referred or len(referred) > _MOST_REFERENCES:
                continue
            of_reference = self._answer(f"/subjects/{each['subject']}/versions/{each['version']}")
            if of_reference is not None:
                self._refer(of_reference, referred)
                referred[key] = of_reference["schema"]

    def _answer(self, path: str) -> dict[str, Any] | None:
        import httpx  # at the first question: each worker would import it

        credentials = None if self.user is None else (self.user, self.password or "")
        try:
            answer = httpx.get(self.url.rstrip("/") + path, auth=credentials, timeout=_ANSWER_SECONDS)
            if answer.status_code == httpx.codes.NOT_FOUND and "error_code" in answer.json():
                return None
            content = answer.raise_for_status().json()
            if not isinstance(content.get("schema"), str):
                raise ValueError("its answer holds no schema")
        except httpx.HTTPStatusError as error:
            raise self._away(f"it answers with status {error.response.status_code}") from None
        except (httpx.HTTPError, ValueError, AttributeError) as error:
            raise self._away(str(error) or type(error).__name__) from None
        if content.get("schemaType", "AVRO") != "AVRO":
            return {**content, "schema": f'"a schema of type {content["schemaType"]}, not Avro"', "references": []}
        return content

    def _away(self, told: str) -> SourceAwayError:
        return SourceAwayError(
            f"The schema registry at {self.url} can't be asked: {told}. The stream waits until it can; nothing is lost."
        )
