"""Takes the secrets of one destination out of what it answers: each as it is, and in the forms in
which it travels. What is kept of errors is masked once more, by all that is known (`masking`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pgcron_ha.executors.contract.masking import MASK, forms_of


class Masker:
    """Knows some secrets. Mask first and cut afterwards: half a secret is one, too."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in forms_of(secret)}
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
