"""What handlers say with their success: the assets that they have updated, checked as the database
does, and the steps that they add to their workflow.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.attempt import Attempt
from pgcron_ha.executors.contract.failures import outcome_of_result
from pgcron_ha.executors.contract.masking import Masker
from pgcron_ha.executors.contract.outcome import Failed
from pgcron_ha.spec.lines import ASSET
from pgcron_ha.spec.text import type_words

MOST_UPDATES: Final = 100
"""Assets that one run updates."""

MOST_STEPS: Final = 1000
"""Steps that one run adds to its workflow."""

MOST_BYTES: Final = 4096
"""Of the metadata of an update."""


def checked_metadata(
    name: object, metadata: object, own: Masker | None = None
) -> dict[str, Any] | None:
    """The metadata as it is kept, without secrets. Raises `InvalidInput`."""
    if not isinstance(name, str) or not ASSET.fullmatch(name):
        raise InvalidInput(
            f"{name!r:.200} is not the name of an asset",
            'An asset has 1 to 100 letters, digits, "_", ".", ":", "/", "+", "@", "=" and "-", and'
            ' is not called "and".',
            "Write for example 'sales'.",
        )
    if metadata is None:
        return None
    kept = outcome_of_result(metadata, own)
    wrong = f"it is {type_words(metadata)}"
    if isinstance(kept, Failed):
        wrong = "it is too large, too deep, or has what JSON does not have"
    elif isinstance(value := json.loads(kept.text or "null"), dict):
        size = len(json.dumps(value, ensure_ascii=False).encode())
        if size <= MOST_BYTES:
            return value
        wrong = f"it has {size} bytes"
    raise InvalidInput(
        f"the metadata of asset {name!r} can't be kept: {wrong}",
        f"Metadata is a JSON object of at most {MOST_BYTES} bytes.",
        "Write for example {'rows': 3}, and keep the rest in a table of yours.",
    )


def checked_step(name: object, step: dict[str, Any]) -> dict[str, Any]:
    """The step as JSON has it. Raises `InvalidInput`."""
    try:
        kept: dict[str, Any] = json.loads(json.dumps(step, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"step {name!r:.200} can't be kept: {error}",
            "The args and keys of a step are JSON.",
            "Write durations as texts such as '90 s', and instants as in JSON.",
        ) from error
    return kept


def declared_of(context: Attempt) -> dict[str, Any] | None:
    """What a run declares, as the database takes it: steps in the order in which they were added.
    None: nothing.
    """
    if not (declared := context._declared):
        return None
    return {"assets": declared.get("assets", {}), "steps": list(declared.get("steps", {}).values())}
