"""Makes the users and the client of the provider, if there are none, and serves it."""

from __future__ import annotations

import os
import sys

import django  # type: ignore[import-untyped]
import uvicorn
from django.core.asgi import get_asgi_application  # type: ignore[import-untyped]
from django.core.management import call_command  # type: ignore[import-untyped]

USERS = {"ann": "on call", "eve": "guests"}


def make(client: str, secret: str, redirect_uri: str, password: str) -> None:
    from django.contrib.auth.models import Group, User  # type: ignore[import-untyped]

    call_command("migrate", run_syncdb=True, verbosity=0)
    if User.objects.exists():
        return
    for name, group in USERS.items():
        user = User.objects.create_user(name, password=password)
        user.groups.add(Group.objects.create(name=group))
    call_command(
        *("createapplication", "confidential", "authorization-code"),
        client_id=client,
        client_secret=secret,
        redirect_uris=redirect_uri,
        algorithm="RS256",
        name="the pages",
    )


if __name__ == "__main__":
    port, *given = sys.argv[1:]
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.web.django_provider.settings"
    django.setup()
    make(*given)
    uvicorn.run(get_asgi_application(), host="127.0.0.1", port=int(port), lifespan="off")
