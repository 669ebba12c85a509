"""The settings of the pages: where they are, and who is let in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pgcron_ha.config import values
from pgcron_ha.config.secret_references import SecretReference, parse_secret_reference
from pgcron_ha.config.setting import optional_setting, setting

HOST: Final = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]"
_HOSTS = values.text_list(HOST, "the whole name or the address of a host, without a port")
_CLAIM = values.text(r"[!-~]{1,100}", "the name of a claim")
_HEADER = values.text(r"[A-Za-z0-9-]{1,100}", "the name of a header")


@dataclass(frozen=True)
class WebSettings:
    """Where the pages are served, and where called services send callbacks."""

    listen: values.Address | values.SocketPath = setting(
        values.place_to_listen,
        "127.0.0.1:8420",
        "Where `pgcron-ha web` serves its pages: HOST:PORT or unix:/path. Without login only this"
        " machine's own addresses.",
    )
    hosts: tuple[str, ...] = setting(
        _HOSTS,
        [],
        "Names that browsers use for the pages, beside the one of web.public_url and those of"
        " this machine's loopback.",
    )
    tls_certificate: str | None = optional_setting(
        values.absolute_path,
        "A file with the certificate of the pages and its chain (PEM), for https.",
    )
    tls_key: str | None = optional_setting(
        values.absolute_path, "The file with its private key (PEM)."
    )
    callbacks: values.Address | None = optional_setting(
        values.address,
        "Where `pgcron-ha web` takes callbacks of called services, and nothing else; any address"
        " behind an https web.public_url, as each of them brings its token.",
    )
    public_url: str | None = optional_setting(
        values.base_url,
        "How browsers reach the pages, and services web.callbacks, through any proxies before"
        " them: https://jobs.example.com.",
    )
    allow_private: bool = setting(
        values.flag,
        False,
        "Callbacks come over a private network: their tokens may be sent in the clear (http).",
    )
    dsn: str | None = optional_setting(
        values.database_url,
        "The database as the pages read it, by a role of their own (`pgcron-ha grants viewer`,"
        " `auditor`); that of dsn by default.",
    )
    write_dsn: str | None = optional_setting(
        values.database_url,
        "The same for what pages change and callbacks report (`grants operator`, `scheduler`,"
        " `login`, `callbacks`); that of web.dsn by default.",
    )


@dataclass(frozen=True)
class AuthSettings:
    """Who is let in to the pages, and for how long."""

    local: bool = setting(
        values.flag, False, "Users with passwords log in; `pgcron-ha users add` makes them."
    )
    oidc_issuer: str | None = optional_setting(
        values.text(r"https?://\S{1,200}", "the URL of an issuer"),
        "Users of this OpenID Connect provider log in, as its discovery document names it.",
    )
    oidc_client_id: str | None = optional_setting(
        values.text(r"[!-~]{1,200}", "the id of a client"), "What the provider calls the pages."
    )
    oidc_client_secret: SecretReference | None = optional_setting(
        parse_secret_reference,
        "Where the client's secret is: file:/path, env:NAME, credential:NAME or command:PROGRAM;"
        " a public client has none.",
    )
    oidc_scopes: tuple[str, ...] = setting(
        values.text_list(r"[!-~]{1,100}", "a scope", may_be_empty=False),
        ["openid", "profile"],
        "What is asked for; the provider says which scope gives the groups.",
    )
    oidc_groups_claim: str = setting(_CLAIM, "groups", "The claim of the ID token with groups.")
    oidc_name_claim: str = setting(
        _CLAIM, "preferred_username", "The claim with the name that is shown."
    )
    proxy_addresses: tuple[values.Network, ...] = setting(
        values.networks,
        [],
        "Addresses of proxies, such as 10.0.0.5 or 10.1.0.0/16, that say who sends a request."
        " Nobody else is believed.",
    )
    proxy_user_header: str = setting(_HEADER, "X-Forwarded-User", "The header with the user.")
    proxy_groups_header: str = setting(
        _HEADER, "X-Forwarded-Groups", "The header with the user's groups, with commas."
    )
    session_idle: float = setting(
        values.duration("1m", "30d"), "8h", "A session that is not used for this long is over."
    )
    session_life: float = setting(
        values.duration("1m", "90d"), "24h", "How long a session lasts at most."
    )

    @property
    def has_login(self) -> bool:
        """Whether somebody can log in, in one of three ways."""
        return self.local or self.oidc_issuer is not None or bool(self.proxy_addresses)
