"""What the provider says of its users besides their ids."""

from __future__ import annotations

from typing import Any

from oauth2_provider.oauth2_validators import OAuth2Validator  # type: ignore[import-untyped]


class GroupsInTheToken(OAuth2Validator):  # type: ignore[misc]
    """As the provider's documentation adds claims: to the scope that they belong to."""

    oidc_claim_scope = OAuth2Validator.oidc_claim_scope | {"groups": "profile"}

    def get_additional_claims(self, request: Any) -> dict[str, Any]:
        groups = request.user.groups.values_list("name", flat=True)
        return {"preferred_username": request.user.username, "groups": list(groups)}
