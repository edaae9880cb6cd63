"""Confluent's schema registry: the schemas that records in its wire format name by their ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from spark_jobs.errors import SourceAwayError
from spark_jobs.secret_text import SecretText

if TYPE_CHECKING:
    import httpx

_ANSWER_SECONDS = 10.0
_MOST_REFERENCES = 100


@dataclass(frozen=True)
class SchemaRegistry:
    """Asks a registry; travels inside pickled tasks, without the password.

    Attributes:
        url: where it answers.
        user: for those that ask who asks; None: it does not.
        password: of the user; in no text of this object.
    """

    url: str
    user: str | None = None
    password: SecretText | None = field(default=None, repr=False)

    def schema(self, schema_id: int) -> tuple[str, list[str]] | None:
        """The text of a schema, and those that it refers to, each after those that it needs; None: there is none.

        Raises:
            SourceAwayError: the registry does not answer, or not with a schema, or lacks one that is referred to.
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
            # What was deleted softly is still referred to.
            version = f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}?deleted=true"
            of_reference = self._answer(version)
            if of_reference is None:  # no registry deletes it for good while it is referred to: it is not there yet
                raise self._away("it lacks version {1} of subject {0}, to which a schema refers".format(*key))
            self._refer(of_reference, referred)
            referred[key] = of_reference["schema"]

    def _answer(self, path: str) -> dict[str, Any] | None:
        import httpx

        credentials = None if self.user is None else (self.user, self.password or "")
        try:
            answer = _client().get(self.url.rstrip("/") + path, auth=credentials)
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


@cache
def _client() -> httpx.Client:
    """This process's, which keeps connections open."""
    import httpx  # at the first question: each worker would import it

    return httpx.Client(timeout=_ANSWER_SECONDS)
