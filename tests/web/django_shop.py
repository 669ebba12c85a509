"""The Django project of docs/how-to/django.md with the pages under a prefix, and with a login."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.blocks import DOCS, Block, blocks
from tests.docs.reader import Reader
from tests.servers import free_port
from tests.web.login_sites import PASSWORD

HOST = "shop.example.com"
SETTINGS = f"""
from project.settings import *
from tests.web.django_login import MIDDLEWARE, PASSWORD_HASHERS, TEMPLATES, tables_as_they_are

ROOT_URLCONF = "project.with_login"
ALLOWED_HOSTS = ["localhost", "{HOST}"]
LOGIN_REDIRECT_URL = "/jobs/"
MIGRATION_MODULES = tables_as_they_are(INSTALLED_APPS)
"""
URLS = """
from django.urls import include, path
from shop.urls import urlpatterns as shop

urlpatterns = [path("accounts/", include("django.contrib.auth.urls")), *shop]
"""
# All in one process: each that loads Django takes a second, and many on a busy machine.
SERVE = f"""
import os
import sys

import django
import uvicorn

os.environ["DJANGO_SETTINGS_MODULE"] = "project.with_settings"
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command

call_command("migrate", run_syncdb=True, verbosity=0)
for name, more in [("root", {{"is_staff": True, "is_superuser": True}}),
                   ("ada", {{"is_staff": True}}), ("bob", {{}})]:
    User.objects.create_user(name, password="{PASSWORD}", **more)
uvicorn.run("project.asgi:application", port=int(sys.argv[1]))
"""


@contextmanager
def shop(dsn: str, folder: Path) -> Iterator[str]:
    """Its address. Users are root, ada (staff) and bob (a customer)."""
    typed = blocks(DOCS / "how-to" / "django.md")
    files = [each for each in typed if each.words.startswith(("project/", "shop/"))]
    port = free_port()
    reader = Reader(folder, dsn)
    try:
        reader.follow(
            [
                *files,
                Block("python", "project/with_settings.py", SETTINGS, 0),
                Block("python", "project/with_login.py", URLS, 0),
                Block("python", "serve.py", SERVE, 0),
                Block("sh", "in another terminal", f"python serve.py {port}", 0),
                Block("text", "", "…\nINFO: … Uvicorn running on …", 0),
            ]
        )
        yield f"http://localhost:{port}/"
    finally:
        reader.close()
