"""What a browser may do with the page's answers."""

from __future__ import annotations

from fastapi import Response

# The page's own scripts and styles, and nothing else; shown by Airflow's own pages, and by nobody else's.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
# Pages of another program, with values of facts in them: they run no script, so they can't use the reader's session.
DATA_DOCS_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def protected(response: Response, policy: str) -> Response:
    """The same answer, with the policy and without room for guesses about its type.

    Args:
        response: a file.
        policy: value of Content-Security-Policy.
    """
    response.headers["Content-Security-Policy"] = policy
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-cache"  # ask whether it has changed, each time
    return response
