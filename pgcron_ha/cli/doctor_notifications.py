"""What `pgcron-ha doctor` says of poolers, and whether notifications arrive past them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import Final

from pgcron_ha.cli.doctor_checks import Diagnosis, Finding
from pgcron_ha.cli.session import Session
from pgcron_ha.client.run_status import probe_ends
from pgcron_ha.db.driver.link import Link
from pgcron_ha.errors import PgcronError

HEARD_SECONDS: Final = 2.0
_LOOKING: Final = (
    "Nodes work through it but hear no notification: they look every node.poll_interval. Give them "
    "a listen_dsn that leads to the server itself. If it gives each client a session of its own, "
    'set pooler = "session".'
)


async def listen_past(session: Session) -> float | str | None:
    """The seconds until a notification came by listen_dsn; or why none came; None without one."""
    dsn = session.settings.listen_dsn
    if dsn is None:
        return None
    link = Link(dsn, session.schema, title="pgcron_ha command")
    heard = asyncio.Event()
    try:
        await link.listen(lambda _: heard.set(), "end_channel", insists=True)
        began = monotonic()
        await probe_ends(session.connection, session.schema)
        await asyncio.wait_for(heard.wait(), HEARD_SECONDS)
        return monotonic() - began
    except TimeoutError:
        return f"none came within {HEARD_SECONDS:g} s"
    except PgcronError as error:
        return f"{error.message} ({error.detail})"
    finally:
        await link.close()


def check_pooler(found: Diagnosis) -> Iterator[Finding]:
    """What a pooler that hands sessions around takes away, and whether listen_dsn gives it back."""
    if isinstance(found.heard, str):
        yield Finding(
            "notifications",
            "advice",
            f"they do not arrive by listen_dsn: {found.heard}",
            "It must lead to the same database, to the server itself or through a pooler in "
            "session mode. Until it does, nodes look every node.poll_interval.",
        )
    elif found.heard is not None:
        arrive = f"they arrive by listen_dsn, within {found.heard * 1000:.0f} ms"
        yield Finding("notifications", "ok", arrive)
    if not found.is_pooled:
        return
    through = "the DSN leads through a pooler that hands sessions around"
    if found.heard is None:
        yield Finding("pooler", "advice", through, _LOOKING)
    else:
        yield Finding("pooler", "ok", through)
    if found.server["default_isolation"] != "read committed":
        yield Finding(
            "pooler",
            "problem",
            f"default_transaction_isolation is '{found.server['default_isolation']}'",
            "Through a pooler no session can change it, and edits need another: ALTER ROLE "
            f"{found.role['name']} SET default_transaction_isolation = 'read committed'; then "
            "RECONNECT in the pooler's console. Or use a DSN that leads to the server itself.",
        )
