"""An OpenID Connect provider on loopback: discovery, keys that rotate, authorization by a form, and
tokens for codes that are used once with the right verifier and the client's secret.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from joserfc import jwt
from joserfc.jwk import ECKey, KeyParameters, KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.product.config import Address
from tests.product.web import WebServer

CLIENT = "pages"
SECRET = "se:cr/et%of+the-pages"


class Provider:
    """`claims` are of the user who logs in; what is in `lies` is wrong on purpose."""

    def __init__(self) -> None:
        self.issuer = ""
        self.redirect_uri = ""
        self.claims: dict[str, Any] = {
            "sub": "4711",
            "preferred_username": "Ann “A” Lee",
            "groups": ["staff", "on call"],
        }
        self.lies: dict[str, Any] = {}
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        """Not set: the provider is away, and keeps those waiting who ask."""
        self.answers.set()
        self._codes: dict[str, dict[str, str]] = {}
        self.rotate("RS256")

    def rotate(self, algorithm: str) -> None:
        """Signs with another key from now on, and publishes no other."""
        number: KeyParameters = {"kid": secrets.token_hex(4)}
        self._algorithm = algorithm
        self._key: Any = (
            RSAKey.generate_key(2048, number)
            if algorithm == "RS256"
            else ECKey.generate_key("P-256", number)
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        routes = [
            Route("/.well-known/openid-configuration", self._discovery),
            Route("/keys", self._keys),
            Route("/authorize", self._authorize, methods=["GET"]),
            Route("/authorize", self._consent, methods=["POST"]),
            Route("/token", self._token, methods=["POST"]),
        ]
        server = WebServer(Starlette(routes=routes), Address("127.0.0.1", 0))
        self.issuer = server.url.rstrip("/")
        running = asyncio.create_task(server.run())
        try:
            yield
        finally:
            server.stop()
            await running

    async def _discovery(self, request: Request) -> Response:
        self.asked.append("discovery")
        await self.answers.wait()
        return JSONResponse(
            {
                "issuer": self.lies.get("issuer", self.issuer),
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": self.lies.get("token_endpoint", f"{self.issuer}/token"),
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    async def _keys(self, request: Request) -> Response:
        self.asked.append("keys")
        return JSONResponse(KeySet([self._key]).as_dict(private=False))

    async def _authorize(self, request: Request) -> Response:
        """Asks for consent, as people see it; a browser presses the button."""
        query = request.query_params
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        if query["client_id"] != CLIENT or query["redirect_uri"] != self.redirect_uri:
            return HTMLResponse("no such client", 400)
        action = f"/authorize?{urlencode(dict(query))}"
        return HTMLResponse(f'<form method="post" action="{action}"><button>Allow</button></form>')

    async def _consent(self, request: Request) -> Response:
        query, code = dict(request.query_params), secrets.token_urlsafe(16)
        self._codes[code] = query
        given = {"code": code, "state": query["state"], "iss": self.issuer, "session_state": "x"}
        given |= self.lies.get("answer", {})
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(given)}", 303)

    async def _token(self, request: Request) -> Response:
        self.asked.append("token")
        form = await _form(request)
        pair = base64.b64encode(f"{CLIENT}:{quote(SECRET, safe='')}".encode()).decode()
        flow = self._codes.pop(form["code"], None)
        challenge = _base64(hashlib.sha256(form["code_verifier"].encode()).digest())
        if (
            flow is None
            or request.headers.get("authorization") != f"Basic {pair}"
            or challenge != flow["code_challenge"]
            or form["redirect_uri"] != flow["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        times = {"iat": now, "exp": now + 300}
        own = {"iss": self.issuer, "aud": CLIENT, "nonce": flow["nonce"]}
        claims = {**own, **times, **self.claims, **self.lies.get("claims", {})}
        claims = {name: value for name, value in claims.items() if value is not None}
        return JSONResponse(
            {"access_token": "x", "token_type": "Bearer", "id_token": self._signed(claims)}
        )

    def _signed(self, claims: dict[str, Any]) -> str:
        header = {"alg": self._algorithm, "kid": self._key.kid}
        if self.lies.keys() & {"hmac", "none"}:
            _, body, _ = jwt.encode(header, claims, self._key).split(".")
            is_signed = "hmac" in self.lies
            head = json.dumps({**header, "alg": "HS256" if is_signed else "none"})
            unsigned = f"{_base64(head.encode())}.{body}"
            # The published key as if it were a shared secret.
            public = self._key.as_pem(private=False)
            digest = hmac.digest(public, unsigned.encode(), "sha256") if is_signed else b""
            return f"{unsigned}.{_base64(digest)}"
        if "foreign key" in self.lies:
            return jwt.encode(header, claims, RSAKey.generate_key(2048, {"kid": self._key.kid}))
        return jwt.encode(header, claims, self._key)


async def _form(request: Request) -> dict[str, str]:
    return dict(parse_qsl((await request.body()).decode()))


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
