"""Sends the audit to a webhook: each row at least once, in order, from one node at a time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from typing import ClassVar, Final

from pgcron_ha.config.http_destinations import EVERYTHING, HttpDestination
from pgcron_ha.config.settings import AuditSettings
from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.http.client import NO_ANSWER, HttpClient
from pgcron_ha.executors.http.executor import tls_context_of
from pgcron_ha.executors.http.request import HttpRequest

INTERVAL_SECONDS: Final = 5.0
ROWS: Final = 100
"""Of one request; a row has some kilobytes at most."""

_KEY: Final = "webhook"
_REQUEST_SECONDS: Final = 20.0


class AuditWebhook(Service):
    """How far it was sent is in the database, where a node claims the next rows for a minute."""

    name: ClassVar[str] = "audit webhook"

    def __init__(self, link: Link, settings: AuditSettings, url: str) -> None:
        super().__init__(INTERVAL_SECONDS)
        self._link = link
        self._secret = settings.secret
        self._destination = HttpDestination(
            name="audit",
            url=url,
            request_timeout=_REQUEST_SECONDS,
            allow_private=EVERYTHING if settings.allow_private else (),
        )
        if self._destination.is_in_the_clear:
            raise ConfigError(
                f"audit.webhook {url} is not encrypted",
                "The audit has names and reasons, which nobody on the way may read.",
                "Use https, or set audit.allow_private in a private network.",
            )
        self._tls = tls_context_of(None)

    async def run_once(self) -> float | None:
        """Sends the next rows, if it is time and no other node does."""
        await self._link.value("settle_audit")
        rows = await self._link.rows("claim_audit", at_most=ROWS)
        if not rows:
            if _KEY in self.aside and not await self._link.value("audit_unsent"):
                self.aside.forget(_KEY)  # another node got through
            return None
        lines = "".join(f"{row['line']}\n" for row in rows)
        error = await self._send(lines.encode())
        before, last = rows[0]["sent"], rows[-1]["id"]
        await self._link.rows("audit_was_sent", before=before, sent=last, error=error)
        if error is not None:
            self.aside.put(_KEY, "the audit's webhook", error)
            return None
        self.aside.forget(_KEY)
        return 0

    async def _send(self, content: bytes) -> str | None:
        """None when it was taken, else why not."""
        url = self._destination.url
        headers = {"User-Agent": "pgcron-ha", "Content-Type": "application/x-ndjson"}
        if self._secret is not None:
            try:
                secret = await asyncio.to_thread(self._secret.read)
            except ConfigError as error:
                return f"audit.secret: {error.message}"
            signature = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
            headers["Pgcron-Signature"] = f"sha256={signature}"
        request = HttpRequest("POST", url, headers, content)
        client = HttpClient(self._destination, self._tls)
        try:
            answer = await client.exchange(request)
        except NO_ANSWER as error:
            return f"{url}: {str(error) or type(error).__name__}"
        finally:
            await client.close()
        if 200 <= answer.status < 300:
            return None
        return f"{url} answered {answer.status} {answer.reason}"
