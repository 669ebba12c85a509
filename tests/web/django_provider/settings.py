"""A Django project that is an OpenID Connect provider: django-oauth-toolkit as its documentation
sets it up, with what its next version demands by default.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.web.django_login import MIDDLEWARE, PASSWORD_HASHERS, TEMPLATES, tables_as_they_are

__all__ = ["MIDDLEWARE", "PASSWORD_HASHERS", "TEMPLATES"]

SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["localhost"]
ROOT_URLCONF = "tests.web.django_provider.urls"
STATIC_URL = "/static/"
LOGIN_URL = "/accounts/login/"
# All ports of a host share their cookies.
SESSION_COOKIE_NAME = "provider_session"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(Path(os.environ["PROVIDER_FOLDER"], "users")),
    }
}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
]
MIGRATION_MODULES = tables_as_they_are(INSTALLED_APPS)
OAUTH2_PROVIDER = {
    "OIDC_ENABLED": True,
    "OIDC_RSA_PRIVATE_KEY": Path(os.environ["PROVIDER_FOLDER"], "key.pem").read_text(),
    "OAUTH2_VALIDATOR_CLASS": "tests.web.django_provider.claims.GroupsInTheToken",
    "SCOPES": {"openid": "Who you are", "profile": "Your name and groups"},
    "PKCE_REQUIRED": True,
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
    "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
    "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
}
