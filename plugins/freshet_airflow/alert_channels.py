"""The ways in which an alert is sent: Airflow's log, an email, a webhook; the latter two where they are set up."""

from __future__ import annotations

import html
import logging
from collections.abc import Callable
from typing import Literal

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowSkipException

from freshet_airflow.freshness_alert import Alert

_log = logging.getLogger(__name__)

Channel = Literal["log", "email", "webhook"]

EMAIL_CONNECTION_ID = "freshet_alert_email"
WEBHOOK_CONNECTION_ID = "freshet_alert_webhook"
_TIMEOUT_SECONDS = 15.0


def tell_log(alert: Alert) -> None:
    """Write the alert into the task's log."""
    level = logging.WARNING if alert.what == "missed" else logging.INFO
    _log.log(level, "%s", alert.text)


def tell_email(alert: Alert) -> None:
    """Send the alert by the SMTP server of the connection `freshet_alert_email`, to the addresses in its extra `to`.

    Raises:
        AirflowSkipException: there is no such connection.
        AirflowException: it names no recipient, or the server refuses.
    """
    # Not at the top: the DAG file, which is read again and again, leads here.
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    to = _connection(EMAIL_CONNECTION_ID).extra_dejson.get("to")
    if not to:
        raise AirflowException(
            f"The connection {EMAIL_CONNECTION_ID} names no recipient. Add to its extra: "
            '{"to": "operator@example.com", "from_email": "freshet@example.com"}.'
        )
    with SmtpHook(smtp_conn_id=EMAIL_CONNECTION_ID) as server:
        server.send_email_smtp(to=to, subject=alert.subject, html_content=f"<pre>{html.escape(alert.text)}</pre>")


def tell_webhook(alert: Alert) -> None:
    """POST the alert as JSON to the URL of the connection `freshet_alert_webhook`.

    The connection is of type http: host, port, schema (http or https), and in its extra the path as `endpoint`. With
    login and password these are sent as basic authentication, with a password alone as a bearer token.

    Raises:
        AirflowSkipException: there is no such connection.
        AirflowException: the server does not answer, or not with success. The message does not show the URL, which
            may hold a secret.
    """
    import httpx

    connection = _connection(WEBHOOK_CONNECTION_ID)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs the URL of each request
    bearer = {"Authorization": f"Bearer {connection.password}"} if connection.password and not connection.login else {}
    try:
        answer = httpx.post(
            _url(connection),
            json=alert.to_dict() | {"text": alert.text},
            headers=bearer,
            auth=(connection.login, connection.password or "") if connection.login else None,
            timeout=_TIMEOUT_SECONDS,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise AirflowException(
            f"The webhook of the connection {WEBHOOK_CONNECTION_ID} can't be reached ({type(error).__name__}). Check "
            "its host, port and schema."
        ) from None
    if not answer.is_success:
        raise AirflowException(
            f"The webhook of the connection {WEBHOOK_CONNECTION_ID} answers {answer.status_code} "
            f"{answer.reason_phrase}. Check its path and credentials."
        )


CHANNELS: dict[Channel, Callable[[Alert], None]] = {"log": tell_log, "email": tell_email, "webhook": tell_webhook}


def _connection(connection_id: str) -> Connection:
    try:
        return BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise AirflowSkipException(f"There is no connection {connection_id}: no alerts are sent this way.") from None


def _url(connection: Connection) -> str:
    host = connection.host or ""
    url = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    if connection.port:
        url = f"{url}:{connection.port}"
    endpoint = str(connection.extra_dejson.get("endpoint", "")).lstrip("/")
    return f"{url}/{endpoint}" if endpoint else url
