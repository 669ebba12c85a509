"""The few parts of a DSN that pgcron_ha reads itself; the driver reads the rest."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from pgcron_ha.config.values import LOOPBACK
from pgcron_ha.errors import DatabaseUnavailable

# People write them for libpq. The driver would send them to the server, which has no such setting.
_NOT_SENT: Final = (
    "connect_timeout",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
)
_PASSWORDS: Final = ("password", "sslpassword")


def parameter(dsn: str, name: str) -> str | None:
    """A parameter behind the ``?``; None if it is missing or empty."""
    return dict(parse_qsl(dsn.partition("?")[2])).get(name)


def each_host(dsn: str) -> dict[str, str]:
    """The hosts before the path, each with the DSN that names it alone."""
    parts = re.fullmatch(r"(\w+://(?:[^/?#]*@)?)([^/?#]*)(.*)", dsn, re.DOTALL)
    if parts is None:
        return {"": dsn}  # the driver says what is wrong
    return {host: f"{parts[1]}{host}{parts[3]}" for host in parts[2].split(",")}


def unprotected_hosts(dsn: str) -> list[str]:
    """The hosts of other machines to which neither the DSN nor the environment asks for TLS: who is
    on the way could switch it off and read everything. What a service asks for is in its file.
    """
    named = ("sslmode", "PGSSLMODE"), ("service", "PGSERVICE")
    if any(parameter(dsn, name) or os.environ.get(variable) for name, variable in named):
        return []
    hosts = parameter(dsn, "host") or ",".join(each_host(dsn)) or os.environ.get("PGHOST", "")
    found = [re.sub(r":[0-9]*$", "", unquote(host)).strip("[]") for host in hosts.split(",")]
    return [host for host in found if host not in ("", *LOOPBACK) and host[0] not in "/@"]


def driver_dsn(dsn: str) -> str:
    """The DSN without what the driver does not take."""
    # An empty name of the database would come before the service's and PGDATABASE.
    return re.sub(r"^(\w+://[^/?#]*)/(?=\?|$)", r"\1", _without(dsn, _NOT_SENT))


def service_options(dsn: str) -> dict[str, Any]:
    """The driver's options for the service that the DSN or PGSERVICE names.

    Raises DatabaseUnavailable for a service that can't be read: the driver would leave it out, and
    connect to a server on this machine.
    """
    service = parameter(dsn, "service") or os.environ.get("PGSERVICE")
    if not service:
        return {}
    file = os.environ.get("PGSERVICEFILE") or os.path.expanduser("~/.pg_service.conf")
    services = configparser.ConfigParser()
    try:
        services.read(file)
        dict(services[service])
    except (KeyError, configparser.Error, UnicodeDecodeError):  # may quote a part of a password
        raise DatabaseUnavailable(
            f"the service '{service}' can't be read from {file}",
            f"That file needs a section [{service}] of lines name=value; a % is written as %%.",
            "Mend the file or name another one in PGSERVICEFILE, or mend the service's name in the"
            " DSN (or PGSERVICE).",
        ) from None
    return {"service": service, "servicefile": file}


def password_of(dsn: str) -> str | None:
    """The password in the DSN, if there is one."""
    found = re.match(r"\w+://[^:/?#@]*:([^/?#]+)@", dsn)
    return unquote(found[1]) if found else parameter(dsn, "password")


def without_password(dsn: str) -> str:
    """The DSN for people: without its password and that of its key."""
    return re.sub(r"^(\w+://[^:/?#@]*):[^/?#]+@", r"\1@", _without(dsn, _PASSWORDS))


def _without(dsn: str, names: Collection[str]) -> str:
    address, mark, query = dsn.partition("?")
    kept = [pair for pair in query.split("&") if pair.partition("=")[0] not in names]
    return f"{address}{mark}{'&'.join(kept)}" if kept else address
