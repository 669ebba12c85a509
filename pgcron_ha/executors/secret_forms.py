"""Takes the secrets of one destination out of what it answers: each as it is, and in the forms in
which it travels. What is kept of errors is masked once more, by all that is known (`masking`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

from pgcron_ha.executors.masking import MASK, SHORTEST_SECRET


class Masker:
    """Knows some secrets. Mask first and cut afterwards: half a secret is one, too."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        # The longest first, so that no part of one is left over.
        ordered = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def mask(self, text: str) -> str:
        """The text without them."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def mask_document(self, document: Any) -> Any:
        """A JSON document whose texts are without them. Raises RecursionError for a deep one."""
        if self._pattern is None:
            return document
        if isinstance(document, dict):
            return {self.mask(k): self.mask_document(v) for k, v in document.items()}
        if isinstance(document, list):
            return [self.mask_document(each) for each in document]
        return self.mask(document) if isinstance(document, str) else document


def _forms(secret: str) -> set[str]:
    if len(secret) < SHORTEST_SECRET:
        return set()
    encoded = secret.encode()
    return {
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        base64.b64encode(encoded).decode().rstrip("="),
        base64.urlsafe_b64encode(encoded).decode().rstrip("="),
    }
