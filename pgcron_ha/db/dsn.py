"""What a DSN asks for, in the words of libpq, as the driver takes it: that knows fewer of them."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from pgcron_ha.errors import DatabaseUnavailable

_SERVICE_HINT: Final = (
    "Check how the service is written (service of the DSN, or PGSERVICE) and its file: that of"
    " PGSERVICEFILE or ~/.pg_service.conf of the user who runs this, then PGSYSCONFDIR's."
)


# What the driver does in its own way (all hosts at once, keepalives of the server's), or what
# changes nothing that matters.
_NOT_NEEDED: Final = frozenset(
    {
        "fallback_application_name",
        "gssdelegation",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "max_protocol_version",
        "replication",
        "sslcompression",
        "sslsni",
        "tcp_user_timeout",
    }
)

_CANT_BE_KEPT: Final[Mapping[str, frozenset[str]]] = {
    "channel_binding": frozenset({"disable", "prefer"}),
    "gssencmode": frozenset({"disable", "prefer"}),
    "min_protocol_version": frozenset({"3.0"}),
    "oauth_client_id": frozenset(),
    "oauth_client_secret": frozenset(),
    "oauth_issuer": frozenset(),
    "oauth_scope": frozenset(),
    "require_auth": frozenset(),
    "requirepeer": frozenset(),
    "scram_client_key": frozenset(),
    "scram_server_key": frozenset(),
    "sslcertmode": frozenset({"allow"}),
    "sslcrldir": frozenset(),
    "sslkeylogfile": frozenset(),
}
"""What the driver can't do, with the values that ask nothing of it."""


_TLS_WORDS: Final = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
)


class PlainDsn(NamedTuple):
    """A DSN as the driver takes it, with what does not fit into it."""

    text: str
    timeout: float | None = None
    """What `connect_timeout` says; in seconds."""
    options: Mapping[str, Any] = {}
    """Arguments for the driver."""


def split_dsn(dsn: str) -> SplitResult:
    """Its parts, as of a URL; the newest Pythons refuse ``[::1],db2`` where a URL has its host."""
    scheme, colon, rest = dsn.partition("://")
    places = re.match("[^/?#]*", rest)
    if not colon or places is None:
        return urlsplit(dsn)
    return urlsplit(f"{scheme}://{rest[places.end() :]}")._replace(netloc=places[0])


def without_places(dsn: str) -> str:
    """The DSN without hosts and ports, for who gives them beside it."""
    parts = split_dsn(dsn)
    user, at, _ = parts.netloc.rpartition("@")
    asked = [pair for pair in parse_qsl(parts.query) if pair[0] not in ("host", "port")]
    query = f"?{urlencode(asked, quote_via=quote)}" if asked else ""
    return f"{parts.scheme}://{user}{at}{parts.path}{query}"


def plain_dsn(dsn: str) -> PlainDsn:
    """The DSN with what its service (or that of PGSERVICE) fills in; its own words come first.

    Raises DatabaseUnavailable for a service that is not there and for what can't be kept,
    ValueError for no DSN, OSError for a file of a certificate.
    """
    parts = split_dsn(dsn)
    if parts.scheme not in ("postgresql", "postgres"):
        return PlainDsn(dsn)  # the driver says what is wrong
    asked = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    service = asked.pop("service", None) or os.environ.get("PGSERVICE")
    named = asked.pop("servicefile", None)
    if service:
        asked = {**_section(service, named), **asked}
    user, at, places = parts.netloc.rpartition("@")
    timeout = _timeout(asked.pop("connect_timeout", None) or os.environ.get("PGCONNECT_TIMEOUT"))
    _drop(asked)
    _use_address(asked, places)
    options = _tls_of_the_system(asked)
    netloc = f"{user}{at}{_with_ports(places, asked.get('port', ''))}"
    # No name is not the empty one, which would come before the service's and PGDATABASE.
    path = "" if parts.path == "/" else parts.path
    query = f"?{urlencode(asked, quote_via=quote)}" if asked else ""
    return PlainDsn(f"{parts.scheme}://{netloc}{path}{query}", timeout, options)


def _timeout(text: str | None) -> float | None:
    """As libpq: whole seconds, and no bound for 0 or less."""
    try:
        seconds = int(text or "0")
    except ValueError:
        raise DatabaseUnavailable(
            f"connect_timeout={text} is no number of seconds",
            "It is an integer; 0 is no bound of the DSN's own.",
            "Mend connect_timeout of the DSN (or PGCONNECT_TIMEOUT).",
        ) from None
    return float(seconds) if seconds > 0 else None


def _drop(asked: dict[str, str]) -> None:
    """Takes out what the driver would take for a setting of the server."""
    for name in _NOT_NEEDED & asked.keys():
        del asked[name]
    for name in sorted(_CANT_BE_KEPT.keys() & asked.keys()):
        if asked.pop(name) not in _CANT_BE_KEPT[name]:
            raise DatabaseUnavailable(
                f"the DSN asks for {name}, which can't be kept",
                "The driver (asyncpg) does not do it, and nothing is connected to with less than"
                " was asked for.",
                f"Take {name} out of the DSN if you can do without;"
                " sslmode=verify-full makes sure of the server.",
            )


def _use_address(asked: dict[str, str], places: str) -> None:
    """hostaddr, where no name of the host stands beside it."""
    address = asked.pop("hostaddr", None)
    if address is None:
        return
    if places or "host" in asked:
        raise DatabaseUnavailable(
            "the DSN has a host and a hostaddr",
            "The driver (asyncpg) can't connect to one and check the certificate of the other.",
            "Give one of them: the host's name, or its address as host.",
        )
    asked["host"] = address


def _tls_of_the_system(asked: Mapping[str, str]) -> dict[str, Any]:
    """sslrootcert=system: the authorities that this machine trusts, and the host's name checked."""
    words = {name: asked.get(name) or os.environ.get(_variable(name)) for name in _TLS_WORDS}
    if words["sslrootcert"] != "system":
        return {}
    mode = words["sslmode"] or "verify-full"
    if mode != "verify-full":
        raise DatabaseUnavailable(
            f"sslmode={mode} does not go with sslrootcert=system",
            "Anybody can have a certificate of an authority that every machine trusts.",
            "Write sslmode=verify-full in the DSN (PGCRON_HA_DSN).",
        )
    context = ssl.create_default_context()
    if words["sslcert"]:
        context.load_cert_chain(words["sslcert"], words["sslkey"], words["sslpassword"] or "")
    if words["sslcrl"]:
        context.load_verify_locations(words["sslcrl"])
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
    if words["ssl_min_protocol_version"]:
        context.minimum_version = _tls_version(words["ssl_min_protocol_version"])
    if words["ssl_max_protocol_version"]:
        context.maximum_version = _tls_version(words["ssl_max_protocol_version"])
    context.set_alpn_protocols(["postgresql"])
    return {"ssl": context}


def _variable(name: str) -> str:
    return f"PG{name.upper().replace('_', '')}"


def _tls_version(text: str) -> ssl.TLSVersion:
    try:
        return ssl.TLSVersion[text.replace(".", "_")]
    except KeyError:
        raise ValueError(f"no such TLS version: {text}") from None


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
