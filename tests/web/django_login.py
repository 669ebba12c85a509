"""Settings of Django projects in which people log in and out by Django's own views."""

from __future__ import annotations

from collections.abc import Iterable

LOGIN_FORM = """<!doctype html><title>Log in</title>
<form method="post">{% csrf_token %}{{ form }}<button>Log in</button></form>"""

# As Django's documentation advises for tests: a second for each password is for production.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "context_processors": ["django.template.context_processors.request"],
            "loaders": [
                (
                    "django.template.loaders.locmem.Loader",
                    {
                        "registration/login.html": LOGIN_FORM,
                        "registration/logged_out.html": "<!doctype html><title>Out</title>",
                    },
                ),
                "django.template.loaders.app_directories.Loader",
            ],
        },
    }
]


def tables_as_they_are(apps: Iterable[str]) -> dict[str, None]:
    """Of these apps `migrate --run-syncdb` makes the tables at once, without their history."""
    return {app.rpartition(".")[2]: None for app in apps}
