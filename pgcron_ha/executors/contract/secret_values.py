"""Secret args and results of handlers: encrypted with a key that the database does not have.

``card: Secret[str]`` marks a parameter of a handler, ``-> Secret[str]`` its result. The client
encrypts the value before it is sent; the node decrypts it right before the call. In the database it
is ``{"$secret": {"key": …, "data": …}}``, bound to the handler and the parameter, so that it can't
be read as the arg of another one (`pgcron_ha.config.key_ring`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin

from pgcron_ha.config import key_ring
from pgcron_ha.errors import ConfigError, InvalidInput
from pgcron_ha.executors.contract.masking import Masker, are_left_to_the_node
from pgcron_ha.executors.contract.outcome import MAX_RESULT_BYTES, Failed, Outcome, Succeeded

T = TypeVar("T")


if TYPE_CHECKING:
    Secret: TypeAlias = Annotated[T, "secret"]
else:

    class Secret:
        """Marks a parameter of a handler, or its result: ``card: Secret[str]``, ``-> Secret[str]``.

        The value is encrypted before it is sent, and decrypted for the call; the database never has
        it. What the run writes has ``***`` in its place.
        """

        def __class_getitem__(cls, annotation: Any) -> Any:
            return Annotated[annotation, cls]


SECRET: Final = "$secret"
RESULT: Final = "return"
"""Where a parameter's name stands for an arg; no parameter is called so."""

MOST_TEXTS: Final = 100
"""Of one value: each of them is looked for in what the run writes."""

_SHORTEST_NUMBER: Final = 6  # a shorter one occurs in many unrelated texts


def is_marked(annotation: Any) -> bool:
    """Whether it, or a part of it, is `Secret`. One in quotes that can't be read counts by name."""
    if isinstance(annotation, str):
        return "Secret" in annotation
    return annotation is Secret or any(map(is_marked, get_args(annotation)))


def unmarked(annotation: Any) -> Any:
    """What `Secret` stands around, if it does; the annotation itself if not."""
    if annotation is Secret:
        return Any
    stands_around = get_origin(annotation) is Annotated and annotation.__metadata__ == (Secret,)
    return get_args(annotation)[0] if stands_around else annotation


def is_encrypted(value: object) -> bool:
    """Whether it has the form of an encrypted value."""
    return isinstance(value, dict) and value.keys() == {SECRET}


# Values.


def encrypt(value: Any, handler: str, name: str, *, is_steady: bool = False) -> dict[str, Any]:
    """The JSON value as the database keeps it, an encrypted one as it is. If `is_steady` equal
    values look equal: what is written again at each start must not differ each time.

    Raises `InvalidInput`, `ConfigError`.
    """
    if is_encrypted(value):
        return dict(value)
    texts_of(value, name)
    text = json.dumps(value, ensure_ascii=False)
    return {SECRET: key_ring.encrypt(text, _bound(handler, name), is_steady=is_steady)}


def decrypt(value: Any, handler: str, name: str) -> Any:
    """The value that was encrypted for this parameter. Raises `InvalidInput`, `ConfigError`."""
    if are_left_to_the_node():
        return value
    what = f"args.{name}" if name != RESULT else "the result"
    if not is_encrypted(value):
        raise InvalidInput(
            f"{what} is marked secret by its handler and is not encrypted",
            "A secret arg is encrypted before it is sent, so that the database never has it.",
            "Enqueue with an App that has the handler, or encrypt the value first:"
            f" `pgcron-ha secrets encrypt {handler} {name}`. `pgcron-ha erase --run` removes it.",
        )
    inner = value[SECRET] if isinstance(value[SECRET], dict) else {}
    text = key_ring.decrypt(inner, _bound(handler, name), what)
    if text is None:
        raise InvalidInput(
            f"{what} can't be decrypted",
            f"It was not encrypted for {name} of {handler}, or was changed.",
            "A value is encrypted for one parameter of one handler: encrypt it for this one.",
        )
    return json.loads(text)


def _bound(handler: str, name: str) -> bytes:
    return f"pgcron_ha\0{handler}\0{name}".encode()


def texts_of(value: Any, name: str) -> list[str]:
    """What must not be seen of a value in a log: its texts and long numbers. `InvalidInput`."""
    found = list(_texts(value))
    if len(found) > MOST_TEXTS:
        raise InvalidInput(
            f"args.{name}, which is secret, has {len(found)} texts",
            f"A secret value has at most {MOST_TEXTS}: each is masked in what the run writes.",
            "Give it as one text, or keep it in a table of yours.",
        )
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
    elif not isinstance(value, bool) and value is not None:
        text = str(value)
        if isinstance(value, str) or len(text) >= _SHORTEST_NUMBER:
            yield text


def opened(
    args: Mapping[str, Any], names: Sequence[str], handler: str
) -> tuple[dict[str, Any], Masker]:
    """The args with those of these names decrypted, and what masks them. Raises `InvalidInput`,
    `ConfigError`.
    """
    plain = {name: decrypt(args[name], handler, name) for name in names}
    texts = [text for name, value in plain.items() for text in texts_of(value, name)]
    return {**args, **plain}, Masker(texts)


def sealed(outcome: Outcome, handler: str) -> Outcome:
    """The outcome as it may be kept when the handler's result is secret."""
    if not isinstance(outcome, Succeeded) or outcome.result is None or are_left_to_the_node():
        return outcome
    plain = outcome.text or json.dumps(outcome.result, ensure_ascii=False)
    try:
        document = {SECRET: key_ring.encrypt(plain, _bound(handler, RESULT))}
    except ConfigError as error:
        return Failed("SecretUnreadable", error.message, error.detail, retry=False)
    text = json.dumps(document)
    if len(text) > MAX_RESULT_BYTES:
        bound = f"a result may have {MAX_RESULT_BYTES} bytes"
        return Failed("TooLarge", f"{len(text)} bytes when encrypted; {bound}", retry=False)
    return Succeeded(document, text)
