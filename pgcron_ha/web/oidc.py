"""OpenID Connect: the code flow with PKCE against one provider.

What the flow needs is derived from one secret, which the browser keeps in a short-lived cookie:
``state``, ``nonce`` and the verifier. So an answer counts only in the browser that asked for it,
and nothing is kept here for visitors who may never come back.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterable
from importlib.util import find_spec
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import httpx

from pgcron_ha.config.page_settings import AuthSettings
from pgcron_ha.config.values import LOOPBACK
from pgcron_ha.errors import ConfigError, PgcronError, Refused, missing_package

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

CALLBACK: Final = "/login/oidc/callback"
"""Where the provider sends browsers back."""

ALGORITHMS: Final = ["RS256", "ES256"]
LEEWAY_SECONDS: Final = 60
FLOW_SECONDS: Final = 600
"""In which somebody logs in at the provider."""

_DOCUMENT_SECONDS: Final = 3600.0
# A token signed with an unknown key is a reason to read the keys again, but not for everybody.
_KEYS_SECONDS: Final = 10.0
_TIMEOUT: Final = 10.0
_MOST_BYTES: Final = 1024 * 1024
_AT_ONCE: Final = 8
_MOST_GROUPS: Final = 200


class ProviderAway(PgcronError):
    """The provider does not answer, or not as it should."""


class Identity(NamedTuple):
    """Whom the provider has named. `name` never changes; `shown` is for people."""

    name: str
    shown: str
    groups: tuple[str, ...]


class Provider:
    """One provider; the document and the keys are read when they are needed, and kept."""

    def __init__(self, auth: AuthSettings, public_url: str | None) -> None:
        assert auth.oidc_issuer is not None
        if None in (auth.oidc_client_id, public_url):
            raise ConfigError(
                "auth.oidc_issuer needs auth.oidc_client_id and web.public_url",
                "The provider sends browsers back to that URL, never to what a request names.",
                "Set both; `pgcron-ha docs log-in` has an example.",
            )
        if find_spec("joserfc") is None:
            raise missing_package("logins through a provider", "joserfc", "auth")
        self.issuer = auth.oidc_issuer
        self._auth = auth
        self._redirect_uri = f"{public_url}{CALLBACK}"
        self._document: tuple[float, dict[str, Any]] | None = None
        self._keys: KeySet | None = None
        self._read_again = -inf
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def address(self, secret: str) -> str:
        """Where the browser goes to log in. ProviderAway."""
        endpoint = await self._endpoint("authorization_endpoint")
        challenge = hashlib.sha256(_derived(secret, "verifier").encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._auth.oidc_client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._auth.oidc_scopes),
            "state": _derived(secret, "state"),
            "nonce": _derived(secret, "nonce"),
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def identity(self, secret: str, state: str, code: str) -> Identity:
        """Whom the provider has named in answer to `address(secret)`. Refused, ProviderAway."""
        if state != _derived(secret, "state"):
            raise _refused("the answer belongs to no login that this browser has begun")
        token = await self._id_token(secret, code)
        return self._named(await self._claims(token, secret))

    async def _id_token(self, secret: str, code: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": _derived(secret, "verifier"),
        }
        client, reference = str(self._auth.oidc_client_id), self._auth.oidc_client_secret
        password = None if reference is None else await asyncio.to_thread(reference.read)
        document, basic = await self._discovered(), "client_secret_basic"
        methods = document.get("token_endpoint_auth_methods_supported", [basic])
        auth = None
        if password is not None and basic in methods:
            auth = quote(client, safe=""), quote(password, safe="")
        else:
            form |= {"client_id": client} | ({"client_secret": password} if password else {})
        endpoint = await self._endpoint("token_endpoint")
        answer = await self._fetched("POST", endpoint, data=form, auth=auth)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise _refused("the provider gave no ID token")
        return token

    async def _claims(self, token: str, secret: str) -> dict[str, Any]:
        """The claims of a token that is this provider's, for this client, and of this login."""
        # Without such a login it need not be installed.
        from joserfc import jwt
        from joserfc.errors import JoseError

        keys = await self._known_keys(is_new=False)
        try:
            try:
                found = jwt.decode(token, keys, algorithms=ALGORITHMS)
            except (JoseError, ValueError):
                # The provider may have a new key.
                keys = await self._known_keys(is_new=True)
                found = jwt.decode(token, keys, algorithms=ALGORITHMS)
            jwt.JWTClaimsRegistry(
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": self.issuer},
                aud={"essential": True, "value": str(self._auth.oidc_client_id)},
                nonce={"essential": True, "value": _derived(secret, "nonce")},
                exp={"essential": True},
                iat={"essential": True},
                sub={"essential": True},
            ).validate(found.claims)
        except (JoseError, ValueError) as error:
            raise _refused(f"the ID token is not valid ({type(error).__name__})") from None
        audience = found.claims["aud"]
        is_shared = isinstance(audience, list) and len(audience) > 1
        if is_shared and found.claims.get("azp") != self._auth.oidc_client_id:
            raise _refused("the ID token was made for another client")
        return found.claims

    def _named(self, claims: dict[str, Any]) -> Identity:
        subject = claims["sub"]
        if not isinstance(subject, str):
            raise _refused("the ID token has no subject")
        shown = claims.get(self._auth.oidc_name_claim)
        groups = claims.get(self._auth.oidc_groups_claim, [])
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return Identity(
            f"oidc:{self.issuer}#{subject}",
            shown[:200] if isinstance(shown, str) and shown else subject[:200],
            usable_groups(listed),
        )

    async def _discovered(self) -> dict[str, Any]:
        if self._document is not None and monotonic() - self._document[0] < _DOCUMENT_SECONDS:
            return self._document[1]
        url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        document = await self._fetched("GET", url)
        if document.get("issuer") != self.issuer:
            raise self._away("its discovery document names another issuer")
        self._document = (monotonic(), document)
        return document

    async def _known_keys(self, *, is_new: bool) -> KeySet:
        if self._keys is not None:
            if not is_new or monotonic() - self._read_again < _KEYS_SECONDS:
                return self._keys
            self._read_again = monotonic()
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        found = await self._fetched("GET", await self._endpoint("jwks_uri"))
        try:
            usable = [
                k for k in found["keys"] if k["kty"] in ("RSA", "EC") and k.get("use") != "enc"
            ]
            self._keys = KeySet.import_key_set({"keys": usable})
        except (JoseError, KeyError, TypeError, ValueError) as error:
            raise self._away(f"its keys can't be read ({type(error).__name__})") from None
        return self._keys

    async def _endpoint(self, name: str) -> str:
        """An address of the provider's document, encrypted if the issuer's is."""
        address = (await self._discovered()).get(name)
        if not isinstance(address, str) or not _is_safe(address):
            raise self._away(f"its discovery document has no {name} with https")
        return address

    async def _fetched(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """A JSON object of bounded size, in bounded time, few of them at once; no redirect is
        followed.
        """
        try:
            async with (
                asyncio.timeout(_TIMEOUT),
                self._turns,
                httpx.AsyncClient(timeout=_TIMEOUT) as client,
                client.stream(method, url, **more) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise self._away(f"it answered {answer.status_code}")
                body = b""
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        raise self._away(f"it sent more than {_MOST_BYTES} bytes")
            found = json.loads(body)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            raise self._away(type(error).__name__) from error
        if not isinstance(found, dict):
            raise self._away("it sent no JSON object")
        return found

    def _away(self, why: str) -> ProviderAway:
        return ProviderAway(
            "the login provider does not answer as it should",
            f"{self.issuer}: {why}.",
            "Try again; if it stays so, look at the provider and at auth.oidc_issuer.",
        )


def usable_groups(named: Iterable[Any]) -> tuple[str, ...]:
    """The groups that can be stored, of those that a provider or a proxy names."""
    return tuple(g for g in named if isinstance(g, str) and 0 < len(g) <= 200)[:_MOST_GROUPS]


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def _refused(why: str) -> Refused:
    return Refused("the login was refused", f"{why[:1].upper()}{why[1:]}.", "Log in again.")


def _derived(secret: str, purpose: str) -> str:
    return _base64(hashlib.sha256(f"{purpose} {secret}".encode()).digest())


def _base64(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
