"""Settings of Django projects in which people log in and out by Django's own views."""

from __future__ import annotations

LOGIN_FORM = """<!doctype html><title>Log in</title>
<form method="post">{% csrf_token %}{{ form }}<button>Log in</button></form>"""

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
