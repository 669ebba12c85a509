"""The args of a run as text for the placeholders of a capability table."""

from __future__ import annotations

from collections.abc import Mapping

from pgcron_ha.config.capability_table import compile_pattern
from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.context import Context

MAX_VALUE_CHARACTERS = 4 * 1024
"""Of one placeholder. Longer input belongs in a file or a body."""


def placeholder_texts(
    placeholders: Mapping[str, str], context: Context, instead: str, takes_others: bool
) -> dict[str, str]:
    """The texts for all placeholders, by their names.

    Raises `InvalidInput` for an arg there is no placeholder for, unless other args are taken, too,
    and for one that is missing, is no scalar (``instead`` is what to do then) or does not match its
    pattern from end to end.
    """
    args, handler = context.args, context.handler
    unknown = sorted(set(args) - set(placeholders))
    if unknown and not takes_others:
        known = ", ".join(sorted(placeholders)) or "none"
        raise InvalidInput(
            f"the template has no placeholder for the arg {unknown[0]!r}",
            f"the placeholders of {handler} are: {known}",
            "leave the arg out, or add the placeholder to the node's configuration",
        )
    texts: dict[str, str] = {}
    for name, pattern in placeholders.items():
        if name not in args:
            raise InvalidInput(
                f"the arg {name!r} is missing",
                f"{handler} has a placeholder for it",
                f'give {{"{name}": …}} in args',
            )
        value = args[name]
        if not isinstance(value, (str, int, float)):
            raise InvalidInput(
                f"the arg {name!r} is of type {type(value).__name__!r}",
                "a placeholder takes text, a number, true or false",
                instead,
            )
        # As in JSON, where the value came from.
        text = texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
        fits = len(text) <= MAX_VALUE_CHARACTERS and "\0" not in text
        if not fits or not compile_pattern(pattern).fullmatch(text):
            raise InvalidInput(
                f"the arg {name!r} has the value {text[:100]!r}",
                f"it must match {pattern} from end to end, in {MAX_VALUE_CHARACTERS} characters",
                "give another value, or widen the pattern in the node's configuration",
            )
    return texts
