"""The addresses of the provider."""

from __future__ import annotations

from django.urls import include, path  # type: ignore[import-untyped]

urlpatterns = [
    path("accounts/", include("django.contrib.auth.urls")),
    path("id/", include("oauth2_provider.urls")),
]
