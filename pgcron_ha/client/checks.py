"""Values that are refused before anything is sent, with the messages of the database.

Each check takes a value as a caller gave it and returns it as the functions of
`pgcron_ha.db.commands.functions` want it. All raise `InvalidInput` (`TooLarge`, `InvalidSpec`,
`UnknownZone`) with detail and hint.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from pgcron_ha.config import values
from pgcron_ha.errors import InvalidInput, TooLarge
from pgcron_ha.harmless import has_controls
from pgcron_ha.model.json_values import MOST_LEVELS, json_value, levels_of, read_json
from pgcron_ha.spec.text import type_words

MOST_ARGS_BYTES: Final = 256 * 1024
MOST_KEY_CHARACTERS: Final = 500
MOST_NAME_CHARACTERS: Final = 200
LONGEST_DURATION: Final = timedelta(days=36_525)

_HANDLER: Final = re.compile(values.HANDLER_NAME)
_QUEUE: Final = re.compile(values.QUEUE_NAME)
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # after an even number of backslashes

Requirements = Mapping[str, str | bool] | Iterable[str]
"""Labels: ``{"gpu": "a100", "ssd": True}`` (True: any value) or ``["gpu=a100", "ssd"]``."""

MOST_NAMED: Final = 50
"""Of the names that are known, in a refusal."""
MOST_LABELS: Final = 16
MOST_TAGS: Final = 20
MOST_LINKS: Final = 10
MOST_ADDRESS_CHARACTERS: Final = 2000
MOST_DESCRIPTION_CHARACTERS: Final = 2000
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/+@=-]{0,99}")  # as `pgcron.are_tags`
# As `pgcron.links_are_fine`.
_ADDRESS: Final = re.compile(rf"(?!.{{{MOST_ADDRESS_CHARACTERS + 1}}})https?://[!-~]+")
_LINKS_HINT: Final = 'Write for example {"runbook": "https://wiki.example/billing"}.'
# As `pgcron.requires_is_fine`.
_LABEL: Final = re.compile(f"{values.LABEL_NAME}(={values.LABEL_VALUE})?")


# As PostgreSQL writes jsonb, so that both count the same bytes. A ring is a RecursionError.
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, default=json_value
)
_DURATION_HINT: Final = "Write for example 10m, in Python also timedelta(minutes=10)."
_ARGS_HINT: Final = 'Write for example {"day": 1}.'


def handler_name(name: object) -> str:
    """A full handler name such as ``py:report``."""
    if not isinstance(name, str) or not _HANDLER.fullmatch(name):
        raise InvalidInput(
            f"handler '{str(name)[:200]}' is not a handler name",
            "A handler is written kind:name; the kinds are py, shell, http, sql and those of "
            'other executors, the name has letters, digits, "_", "." and "-".',
            (f"Did you mean 'py:{name}'? " if isinstance(name, str) and name.isidentifier() else "")
            + "Write for example 'py:report' or 'shell:backup'; "
            "`pgcron-ha nodes` lists what live nodes offer.",
        )
    return name


def args_text(args: Mapping[str, Any] | str | None) -> str:
    """Args as JSON text of at most 256 KiB; a text is checked and returned unchanged."""
    parsed: object = {} if args is None else args
    if isinstance(args, str):
        parsed = parsed_json("args ", args, _hint_for_args(args))
    if type(parsed) is not dict and not isinstance(parsed, Mapping):
        raise InvalidInput(
            f"args is a JSON {_json_kind(parsed)}",
            "args must be a JSON object: names and values.",
            f"It is quoted twice: write {str(parsed)[:200]}."
            if isinstance(parsed, str) and isinstance(json_or_text(parsed), dict)
            else _ARGS_HINT,
        )
    text = json_text("args", parsed if type(parsed) is dict else dict(parsed))
    return args if isinstance(args, str) else text


def json_text(what: str, value: object) -> str:
    """A value as JSON text of at most 256 KiB."""
    try:
        text = _ENCODER.encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} can't be written as JSON", str(error), _ARGS_HINT) from None
    if size > MOST_ARGS_BYTES:
        raise TooLarge(
            f"{what} has {size} bytes",
            f"{what} may have {MOST_ARGS_BYTES} bytes (256 KiB) as JSON text.",
            "Store the payload in a table or file of yours and pass its key.",
        )
    if (levels := levels_of(text)) > MOST_LEVELS:
        raise TooLarge(
            f"{what} is nested {levels} levels deep",
            f"Objects and lists of {what} may be nested {MOST_LEVELS} levels deep.",
            "Write it flatter, or pass the nested value as one text.",
        )
    if r"\u0000" in text and _NUL.search(text):
        raise InvalidInput(
            f"{what} has a NUL character", "PostgreSQL stores no NUL in text.", "Leave it out."
        )
    return text


def queue_name(name: object) -> str:
    """A queue's name."""
    if not isinstance(name, str) or not _QUEUE.fullmatch(name):
        raise InvalidInput(
            f"queue '{str(name)[:200]}' is not a queue name",
            'A queue name has 1 to 100 letters, digits, "_", "." and "-".',
            "Write for example 'default'.",
        )
    return name


def concurrency_key_name(name: object) -> str:
    """A concurrency key."""
    if not isinstance(name, str) or "*" in name:
        raise InvalidInput(
            f"'{str(name)[:200]}' is not a concurrency key",
            "A concurrency key has 1 to 200 characters that can be shown, is not blank and has no "
            '"*".',
            "Write for example 'customer-7'.",
        )
    return text("the concurrency key", name, MOST_NAME_CHARACTERS)


def refuse_others(
    names: Iterable[object],
    known: Collection[str],
    fact: str,
    which: str,
    hint: str = "Correct its spelling, or leave it out.",
) -> None:
    """Raises InvalidInput for a name that is not known. The fact is without the name, and `which`
    (``The policies``) without those that are known.
    """
    if unknown := set(names).difference(known):
        name = min(map(str, unknown))[:100]
        rule = f"{which} are {', '.join(islice(known, MOST_NAMED))}."
        raise InvalidInput(f"{fact} '{name}'{values.did_you_mean(name, known)}", rule, hint)


def choice(what: str, value: object, known: tuple[str, ...]) -> str:
    """One of the known words; `what` names it in the message."""
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(
            f"{what} '{str(value)[:100]}' is not known",
            f"It is one of {', '.join(known)}.",
            "Correct its spelling, or leave it out.",
        )
    return value


def duration(
    what: str,
    value: object,
    most: timedelta = LONGEST_DURATION,
    least: timedelta = timedelta.resolution,
    *,
    may_be_zero: bool = False,
) -> timedelta:
    """A duration within bounds; numbers are seconds, a text has a unit."""
    seconds = values.seconds_of(value)
    if math.isnan(seconds):
        raise InvalidInput(
            f"{what} {value!r:.100} is not a duration",
            "A duration is a timedelta, a number of seconds, or a text such as '90s' or '1h30m'.",
            _DURATION_HINT,
        )
    found = timedelta.max if math.isinf(seconds) else timedelta(seconds=seconds)
    if (may_be_zero and not found) or least <= found <= most:
        return found
    rule = "positive" if least == timedelta.resolution else f"at least {least.seconds} s"
    raise InvalidInput(
        f"{what} {seconds:.10g} s is out of range",
        f"It must be {rule} and at most {most.days} days.",
        _DURATION_HINT,
    )


def instant(what: str, value: object) -> datetime:
    """An aware datetime."""
    if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            f"{what} {value!s:.100} has no time zone",
            "An instant says its zone: the same wall time is another instant elsewhere.",
            "Give an aware datetime, for example datetime.now(UTC) + timedelta(hours=1).",
        )
    return value


def text(what: str, value: object, most: int) -> str:
    """A text of 1 to `most` characters, not only blanks, without control characters."""
    if not isinstance(value, str) or not value.strip() or len(value) > most or has_controls(value):
        raise InvalidInput(
            f"{what} is empty, too long or no plain text",
            f"It has 1 to {most} characters, none of them a control or format character.",
            "Choose a short text.",
        )
    return value


def mapping(what: str, value: object, rule: str, hint: str) -> Mapping[Any, Any]:
    """A mapping; the rule says of what."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what} is {type_words(value)}", rule, hint)
    return value


def any_text(what: str, value: object) -> str:
    """A text, whatever it says."""
    if not isinstance(value, str):
        raise InvalidInput(
            f"{what} is {type_words(value)}", f"{what} is text.", "Write it in quotes."
        )
    return value


def description_text(value: object) -> str:
    """As `text`, but of several lines; it ends without a newline."""
    written = any_text("the description", value).rstrip()
    text("the description", written.replace("\n", " "), MOST_DESCRIPTION_CHARACTERS)
    return written


def true_or_false(what: str, value: object) -> bool:
    """A bool."""
    if not isinstance(value, bool):
        raise InvalidInput(
            f"{what} {value!r:.100} is not true or false", "It is a boolean.", "Use true or false."
        )
    return value


def whole_number(what: str, value: object, least: int, most: int, rule: str = "") -> int:
    """A number within bounds; `rule` is the sentence about them, if it says more."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        rule = rule or f"It is a whole number from {least} to {most}."
        fact = f"{what} {value!s:.100} is out of range"
        raise InvalidInput(fact, rule, "Leave it out for the default.")
    return value


def requirement_words(given: object) -> tuple[str, ...] | None:
    """The labels of `Requirements` in order, each ``key=value`` or ``key``; None for none.

    Raises InvalidInput with the rule.
    """
    words = _listed(given)
    if isinstance(given, Mapping):
        words = [_word(*item) for item in given.items()]
    texts = [word for word in words if isinstance(word, str) and _LABEL.fullmatch(word)]
    keys = {text.partition("=")[0] for text in texts}
    if len(words) > MOST_LABELS or len(keys) < len(words):
        wrong = next((word for word in words if word not in texts), given)
        raise InvalidInput(
            f"requires '{str(wrong or given)[:200]}' is not a list of labels",
            "It has at most 16 labels, none of them twice: key=value, or a key alone for any value."
            ' Keys have 1 to 100 letters, digits, "_", ".", "/" and "-", values may have ":", "+"'
            ' and "@", too.',
            'Write for example {"gpu": "a100"} or ["gpu=a100", "ssd"].',
        )
    return tuple(sorted(texts)) or None


def tag_words(given: object) -> tuple[str, ...]:
    """Tags in the order in which they are given. Raises InvalidInput with the rule."""
    words = _listed(given)
    tags = [word for word in words if isinstance(word, str) and _TAG.fullmatch(word)]
    if not len(set(tags)) == len(words) <= MOST_TAGS:
        raise InvalidInput(
            f"tags '{str(given)[:200]}' is not a list of tags",
            f"There are at most {MOST_TAGS}, none of them twice, each of 1 to 100 letters, digits,"
            ' "_", ".", ":", "/", "+", "@", "=" and "-".',
            'Write for example ["nightly", "team:billing"].',
        )
    return tuple(tags)


def _listed(given: object) -> list[object]:
    """Its items; of what has none one that is no word."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [None]


def links_text(given: object) -> str:
    """Titles and addresses (a mapping or JSON text) as JSON text. Raises InvalidInput."""
    read = parsed_json("links ", given, _LINKS_HINT) if isinstance(given, str) else given
    links: Mapping[object, object] = read if isinstance(read, Mapping) else {}
    for title in links:
        text("the title of a link", title, most=100)
    fine = all(isinstance(each, str) and _ADDRESS.fullmatch(each) for each in links.values())
    if read is not links or not fine or len(links) > MOST_LINKS:
        raise InvalidInput(
            f"links '{str(given)[:200]}' are not titles and addresses",
            f"There are at most {MOST_LINKS}; an address has up to {MOST_ADDRESS_CHARACTERS} ASCII"
            " characters and begins with http:// or https://.",
            _LINKS_HINT,
        )
    return json.dumps(dict(links), ensure_ascii=False)


def parsed_json(what: str, text: str, hint: str) -> Any:
    """The value of a JSON text; `what` begins the message."""
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what}'{text[:80]}' is not JSON", f"{error}.", hint) from None


def _hint_for_args(text: str) -> str:
    """What was meant by ``feed="7"``."""
    name, is_pair, value = text.partition("=")
    if not is_pair or not name.isidentifier():
        return _ARGS_HINT
    return f"Write {json.dumps({name: json_or_text(value)})[:200]}."


def json_or_text(text: str) -> Any:
    """The value of a JSON text, or the text if it is none."""
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text


def _json_kind(value: object) -> str:
    kinds = {bool: "boolean", type(None): "null", str: "string", int: "number", float: "number"}
    return kinds.get(type(value), "array" if isinstance(value, list | tuple) else "value")


def _word(key: object, value: object) -> object:
    if isinstance(key, str) and isinstance(value, str):
        return f"{key}={value}"
    return key if value is True else (key, value)
