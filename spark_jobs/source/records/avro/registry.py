"""Confluent's schema registry: the schemas that records in its wire format name by their ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from spark_jobs.errors import SourceAwayError
from spark_jobs.secret_text import SecretText

if TYPE_CHECKING:
    import ssl

    import httpx

_ANSWER_SECONDS = 10.0
_MOST_BYTES = 4 << 20  # of a schema and all that it refers to
_MOST_REFERENCES = 100


@dataclass(frozen=True)
class SchemaRegistry:
    """Asks a registry; travels inside pickled tasks, without the password.

    Attributes:
        url: where it answers.
        user: for those that ask who asks; None: it does not.
        password: of the user; in no text of this object.
        answer_seconds: within which it has to answer a question, with all that follows from it.
    """

    url: str
    user: str | None = None
    password: SecretText | None = field(default=None, repr=False)
    answer_seconds: float = _ANSWER_SECONDS

    @property
    def tells_password_to_others(self) -> bool:
        """Whether who listens on the way to it reads the password."""
        parts = urlsplit(self.url)
        return self.user is not None and parts.scheme == "http" and not _is_this_host(parts.hostname or "")

    def schema(self, schema_id: int) -> tuple[str, list[str]] | None:
        """The text of a schema, and those that it refers to, each after those that it needs; None: there is none.

        Raises:
            SourceAwayError: the registry does not answer in time, or not with a schema, or lacks one that is referred
                to.
        """
        import httpx  # at the first question: each worker would import it

        # A limit for each read alone would let a registry that sends a byte a second be waited for without end.
        try:
            return asyncio.run(asyncio.wait_for(_Question(self).schema(schema_id), self.answer_seconds))
        except TimeoutError:
            told = f"it has not answered within {self.answer_seconds:g} s"
        except httpx.HTTPStatusError as error:
            told = f"it answers with status {error.response.status_code}"
        except RecursionError:
            told = "its answer is nested too deeply"
        except (httpx.HTTPError, ValueError) as error:
            told = str(error) or type(error).__name__
        raise SourceAwayError(
            f"The schema registry at {self.url} can't be asked for schema {schema_id}: {told}. The stream waits until "
            "it can; nothing is lost. See that source.avro.registry is the registry's address."
        )


class _Question:
    """One question, with those for what the answer refers to."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._bytes_left = _MOST_BYTES
        self._referred: dict[tuple[str, int], str] = {}
        self._asked: set[tuple[str, int]] = set()

    async def schema(self, schema_id: int) -> tuple[str, list[str]] | None:
        """As `SchemaRegistry.schema`.

        Raises:
            ValueError: the answer holds no schema; the message says what it lacks.
            httpx.HTTPError: there is no answer, or a refusal.
        """
        import httpx

        registry = self._registry
        credentials = None if registry.user is None else (registry.user, registry.password or "")
        # Certificates are the environment's. Its proxies and .netrc are not used: who reads the password, and which
        # one is sent, the definition alone says.
        async with httpx.AsyncClient(auth=credentials, timeout=None, trust_env=False, verify=_certificates()) as client:
            found = await self._answer(client, f"/schemas/ids/{schema_id}")
            if found is None:
                return None
            await self._refer(client, found)
            return found["schema"], list(self._referred.values())

    async def _refer(self, client: httpx.AsyncClient, found: dict[str, Any]) -> None:
        for subject, version in _references(found):
            if (subject, version) in self._referred:
                continue
            if (subject, version) in self._asked or len(self._asked) == _MOST_REFERENCES:
                raise ValueError(f"its schema refers to itself, or to more than {_MOST_REFERENCES} others")
            self._asked.add((subject, version))
            # What was deleted softly is still referred to.
            answer = await self._answer(client, f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true")
            if answer is None:  # no registry deletes it for good while it is referred to: it is not there yet
                raise ValueError(f"it lacks version {version} of subject {subject}, to which a schema refers")
            await self._refer(client, answer)
            self._referred[subject, version] = answer["schema"]

    async def _answer(self, client: httpx.AsyncClient, path: str) -> dict[str, Any] | None:
        import httpx

        url = self._registry.url.rstrip("/") + path
        async with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer:
            if answer.status_code == httpx.codes.NOT_FOUND:
                with suppress(ValueError, RecursionError):  # who answers so is no registry
                    content = await self._content(answer)
                    if isinstance(content, dict) and "error_code" in content:
                        return None
            answer.raise_for_status()
            content = await self._content(answer)
        if not isinstance(content, dict) or not isinstance(content.get("schema"), str):
            raise ValueError("its answer holds no schema")
        kind = content.get("schemaType", "AVRO")
        if kind != "AVRO":
            return {"schema": json.dumps(f"a schema of type {kind}, not Avro"), "references": []}
        return content

    async def _content(self, answer: httpx.Response) -> Any:
        packed = answer.headers.get("Content-Encoding", "identity")
        if packed != "identity":  # some KB might become any number of MB
            raise ValueError(f"it answers packed as {packed}, which it was not asked for")
        parts = []
        async for part in answer.aiter_raw():
            self._bytes_left -= len(part)
            if self._bytes_left < 0:
                raise ValueError(f"its answer has more than {_MOST_BYTES >> 20} MB, which no schema needs")
            parts.append(part)
        return json.loads(b"".join(parts))


def _references(found: dict[str, Any]) -> Iterator[tuple[str, int]]:
    references = found.get("references") or []
    if not isinstance(references, list):
        raise ValueError("what its schema refers to is no list")
    for each in references:
        subject, version = (each.get("subject"), each.get("version")) if isinstance(each, dict) else (None, None)
        if not isinstance(subject, str) or not isinstance(version, int):
            raise ValueError("its schema refers to something without subject and version")
        yield subject, version


@cache
def _certificates() -> ssl.SSLContext:
    """Those that this process trusts: to read them takes longer than a question."""
    import httpx

    return httpx.create_ssl_context(trust_env=True)


def _is_this_host(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
