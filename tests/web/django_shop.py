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
from tests.web.django_login import MIDDLEWARE, TEMPLATES

ROOT_URLCONF = "project.with_login"
ALLOWED_HOSTS = ["localhost", "{HOST}"]
LOGIN_REDIRECT_URL = "/jobs/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""
URLS = """
from django.urls import include, path
from shop.urls import urlpatterns as shop

urlpatterns = [path("accounts/", include("django.contrib.auth.urls")), *shop]
"""
USERS = f"""
import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "project.with_settings"
django.setup()
from django.contrib.auth.models import User

for name, more in [("root", {{"is_staff": True, "is_superuser": True}}),
                   ("ada", {{"is_staff": True}}), ("bob", {{}})]:
    User.objects.create_user(name, password="{PASSWORD}", **more)
"""


@contextmanager
def shop(dsn: str, folder: Path) -> Iterator[str]:
    """Its address. Users are root, ada (staff) and bob (a customer)."""
    typed = blocks(DOCS / "how-to" / "django.md")
    files = [each for each in typed if each.words.startswith(("manage.py", "project/", "shop/"))]
    [made] = [each for each in typed if "makemigrations" in each.text and each.language == "sh"]
    port = free_port()
    start = "env DJANGO_SETTINGS_MODULE=project.with_settings"
    reader = Reader(folder, dsn)
    try:
        reader.follow(
            [
                *files,
                made,
                Block("python", "project/with_settings.py", SETTINGS, 0),
                Block("python", "project/with_login.py", URLS, 0),
                Block("python", "", USERS, 0),
                Block(
                    *("sh", "in another terminal"),
                    f"{start} uvicorn project.asgi:application --port {port}",
                    0,
                ),
                Block("text", "", "…\nINFO: … Uvicorn running on …", 0),
            ]
        )
        yield f"http://localhost:{port}/"
    finally:
        reader.close()
