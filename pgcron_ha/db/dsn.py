"""What a DSN asks for, in the words of libpq, as the driver takes it: that knows fewer of them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pgcron_ha.errors import DatabaseUnavailable

_SERVICE_HINT: Final = (
    "Check how the service is written (service of the DSN, or PGSERVICE) and its file: that of"
    " PGSERVICEFILE or ~/.pg_service.conf of the user who runs this, then PGSYSCONFDIR's."
)


class PlainDsn(NamedTuple):
    """A DSN as the driver takes it."""

    text: str


def plain_dsn(dsn: str) -> PlainDsn:
    """The DSN with what its service (or that of PGSERVICE) fills in; its own words come first.

    Raises DatabaseUnavailable for a service that is not there, ValueError for no DSN.
    """
    parts = urlsplit(dsn)
    if parts.scheme not in ("postgresql", "postgres"):
        return PlainDsn(dsn)  # the driver says what is wrong
    asked = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    service = asked.pop("service", None) or os.environ.get("PGSERVICE")
    named = asked.pop("servicefile", None)
    if service:
        asked = {**_section(service, named), **asked}
    user, at, places = parts.netloc.rpartition("@")
    netloc = f"{user}{at}{_with_ports(places, asked.get('port', ''))}"
    # No name is not the empty one, which would come before the service's and PGDATABASE.
    path = "" if parts.path == "/" else parts.path
    query = f"?{urlencode(asked, quote_via=quote)}" if asked else ""
    return PlainDsn(f"{parts.scheme}://{netloc}{path}{query}")


def _with_ports(places: str, ports: str) -> str:
    """Hosts of the address with the ports that stand elsewhere, unless they have their own."""
    hosts = places.split(",")
    each = ports.split(",")
    if not places or not ports or re.search(r":\d+(,|$)", places):
        return places
    if len(each) == 1:
        each *= len(hosts)
    return ",".join(f"{host}:{port}" for host, port in zip(hosts, each, strict=True))


def _section(service: str, named: str | None) -> dict[str, str]:
    """What a service file says of a service."""
    first = named or os.environ.get("PGSERVICEFILE") or os.path.expanduser("~/.pg_service.conf")
    folder = os.environ.get("PGSYSCONFDIR")
    files = [Path(first), *([Path(folder) / "pg_service.conf"] if folder else [])]
    looked = []
    for file in files:
        try:
            found = _read_section(file, service)
        except OSError as error:
            looked.append(f"{file} ({error.strerror})")
            continue
        if found is not None:
            return found
        looked.append(str(file))
    raise DatabaseUnavailable(
        f'definition of service "{service}" not found',
        f"Looked in {', '.join(looked)}.",
        _SERVICE_HINT,
    )


def _read_section(file: Path, service: str) -> dict[str, str] | None:
    """None: the file has no such service. Raises OSError."""
    found: dict[str, str] | None = None
    lines = file.read_text("utf-8", "replace").splitlines()
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if found is not None:
                break
            found = {} if line == f"[{service}]" else None
        elif found is not None:
            key, equals, value = line.partition("=")
            if not equals or key.strip() in ("service", "servicefile"):
                raise DatabaseUnavailable(
                    f'the definition of service "{service}" can\'t be read',
                    f"Line {number} of {file} is no parameter=value.",
                    "Mend the line; a service can't name another one.",
                )
            if value.strip():
                found.setdefault(key.strip(), value.strip())
    return found
