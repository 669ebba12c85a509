"""pg_cron's table ``cron.job`` as schedules.

A command becomes a SQL profile of the nodes, for the database and the role that pg_cron used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from pgcron_ha.config.sql_profiles import parse_script
from pgcron_ha.schedule_files.imported import LONGEST, Imported

_SECONDS: Final = re.compile(r"(\d+) seconds?", re.IGNORECASE)


def import_pg_cron(
    rows: Iterable[Mapping[str, Any]], name: str, *, timezone: str, server: str | None = None
) -> Imported:
    """The jobs of the rows; ``timezone`` is pg_cron's (cron.timezone), and ``server`` the host that
    they reach as localhost.
    """
    found = Imported()
    for row in rows:
        title = str(row.get("jobname") or f"job-{row.get('jobid') or len(found.definitions) + 1}")
        where = f"{name}, job {title[:100]}"
        said: dict[str, Any] = {
            "spec": _spec(found, where, str(row["schedule"])),
            "timezone": timezone,
            "overlap": "queue",
            "catchup": "none",
        }
        if row.get("active") is False:
            said["enabled"] = False
        found.add(where, title, "sql", said, _profile(found, where, row, server))
    return found


def _spec(found: Imported, where: str, written: str) -> str:
    if match := _SECONDS.fullmatch(written.strip()):
        found.lose(where, f"every {match[1]} s: counted from 1970, not from the end of the last")
        return f"every {match[1]}s"
    fields = written.split()
    if len(fields) == 5 and "$" in fields[2]:  # pg_cron's last day of the month
        fields[2] = fields[2].replace("$", "L")
    return " ".join(fields)


def _profile(
    found: Imported, where: str, row: Mapping[str, Any], server: str | None
) -> dict[str, Any] | None:
    command = str(row["command"])
    try:
        statements = parse_script(command)
    except ValueError as error:
        found.lose(where, f"the command is not carried over: {error}")
        return None
    named = sorted({name for each in statements for name in each.parameters})
    if named:
        found.lose(where, f"the profile would take :{named[0]} for a parameter: rewrite it there")
    profile: dict[str, Any] = {"dsn": _dsn(row, server), "statement": command, "timeout": LONGEST}
    if len(statements) == 1:
        profile["atomic"] = False  # it is so by itself; VACUUM and CALL want no transaction
    return profile


def _dsn(row: Mapping[str, Any], server: str | None) -> str:
    host = str(row.get("nodename") or "localhost")
    if host in ("localhost", "127.0.0.1", "::1") and server:
        host = server
    port = f":{row['nodeport']}" if row.get("nodeport") else ""
    role = quote(str(row.get("username") or "postgres"), safe="")
    if host.startswith("/") or not re.fullmatch(r"[A-Za-z0-9_.:-]+", host):
        host = "localhost"
    return f"postgresql://{role}@{host}{port}/{quote(str(row.get('database') or role), safe='')}"
