"""django-oauth-toolkit as an OpenID Connect provider on loopback, in a process of its own, and a
browser that logs in there.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from joserfc.jwk import RSAKey

from tests.house.checkout import ROOT
from tests.servers import free_port
from tests.waiting import wait_for
from tests.web.login_sites import PASSWORD
from tests.web.oidc_provider import CLIENT, SECRET

_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?')


class ToolkitProvider:
    """Users are ann, who is on call, and eve, a guest. What they allowed stays in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        # Another host than that of the pages: to a browser the provider is another site.
        self.issuer = f"http://localhost:{self._port}/id"
        self.redirect_uri = ""
        self.rotate()

    def rotate(self) -> None:
        """Signs with another key when it runs again, and publishes no other."""
        key = RSAKey.generate_key(2048)
        (self._folder / "key.pem").write_bytes(key.as_pem(private=True))

    @contextmanager
    def running(self) -> Iterator[None]:
        # Of an address without a port any port may be used: OAuth 2.0 for native apps (RFC 8252).
        arguments = [str(self._port), CLIENT, SECRET, "http://127.0.0.1/login/oidc/callback"]
        log = self._folder / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.web.django_provider", *arguments, PASSWORD],
                cwd=ROOT,
                env={**os.environ, "PROVIDER_FOLDER": str(self._folder)},
                stdout=output,
                stderr=output,
            )

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            url = f"{self.issuer}/.well-known/openid-configuration"
            with suppress(httpx.TransportError):
                return httpx.get(url, verify=False).status_code == httpx.codes.OK
            return False

        try:
            wait_for("the provider answers", answers)
            yield
        finally:
            process.terminate()
            process.wait()


class Browser:
    """Follows the provider's redirects and fills in its forms; keeps the user's session there."""

    def __init__(self) -> None:
        self.client = httpx.AsyncClient(verify=False, timeout=60)

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()

    async def allow(self, address: str, name: str, redirect_uri: str) -> str:
        """Where the provider sends the browser in the end: path and query."""
        fields = {"username": name, "password": PASSWORD, "allow": "Authorize"}
        answer = await self.client.get(address)
        while not (to := answer.headers.get("location", "")).startswith(redirect_uri):
            if to:
                answer = await self.client.get(answer.url.join(to))
                continue
            assert answer.status_code == 200, answer.text
            hidden = {key: html.unescape(value) for key, value in _HIDDEN.findall(answer.text)}
            answer = await self.client.post(answer.url, data={**hidden, **fields})
            assert answer.is_redirect, answer.text
        parts = urlsplit(to)
        return f"{parts.path}?{parts.query}"
