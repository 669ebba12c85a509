"""Args are judged and converted by the annotations of the function that takes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, Protocol, TypedDict
from uuid import UUID

import pydantic
import pytest
from pydantic import BaseModel, Field

from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.base import Context
from tests.house.checkout import ROOT
from tests.product.executors import Parameters
from tests.waiting import COMMAND_SECONDS

if TYPE_CHECKING:
    from somewhere import OnlyForTypeCheckers  # type: ignore[import-not-found]


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Size(IntEnum):
    SMALL = 1


class Mode(StrEnum):
    FAST = "fast"


@dataclass
class Line:
    text: str
    amount: Decimal = Decimal(1)


@dataclass
class Order:
    lines: list[Line]
    parent: Order | None = None
    tags: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.lines:
            raise ValueError("an order has lines")


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    depth: int


class Connection:
    """Nothing that JSON could say."""


@dataclass
class Wide:
    number: int
    connection: Connection | None = None


class SupportsSum(Protocol):
    def total(self) -> int: ...


class Customer(BaseModel):
    name: str = Field(min_length=2)
    born: date | None = None


@dataclass
class Unresolved:
    odd: OnlyForTypeCheckers | None = None


Identity = NewType("Identity", int)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LINE = Line("a", Decimal("1.5"))


def one(annotation: Any) -> Callable[..., Any]:
    def takes(value: Any) -> Any:
        return value

    takes.__annotations__["value"] = annotation
    return takes


def read(annotation: Any, value: Any) -> Any:
    return Parameters("py:takes", one(annotation)).values({"value": value})["value"]


@pytest.mark.parametrize(
    ("annotation", "given", "value"),
    [
        (int, 5, 5),
        (float, 5, 5.0),
        (str, "5", "5"),
        (bool, False, False),
        (None, None, None),
        (Decimal, "12.50", Decimal("12.50")),
        (Decimal, 0.1, Decimal("0.1")),
        (datetime, "2026-01-31T12:00:00Z", NOON),
        (date, "2026-01-31", date(2026, 1, 31)),
        (time, "09:30", time(9, 30)),
        (timedelta, "PT1H30M", timedelta(minutes=90)),
        (timedelta, "P1DT1.5S", timedelta(days=1, seconds=1.5)),
        (UUID, "0190163d-8694-739b-aea5-966c26f8ad91", UUID("0190163d8694739baea5966c26f8ad91")),
        (Path, "a/b", Path("a/b")),
        (Colour, "green", Colour.GREEN),
        (Size, 1, Size.SMALL),
        (Mode, "fast", Mode.FAST),
        (Literal["a", 1, None], 1, 1),
        (int | None, None, None),
        (date | str, "soon", "soon"),
        (date | str, "2026-01-31", date(2026, 1, 31)),
        (list[date], ["2026-01-31"], [date(2026, 1, 31)]),
        (Sequence[int], [1, 2], [1, 2]),
        (set[str], ["a", "a"], {"a"}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (dict[int, Colour], {"7": "red"}, {7: Colour.RED}),
        (Mapping[str, Any], {"a": [1]}, {"a": [1]}),
        (dict, {"a": 1}, {"a": 1}),
        (Line, {"text": "a", "amount": "1.5"}, LINE),
        (Order, {"lines": [{"text": "a"}], "parent": {"lines": [{"text": "b"}]}},
         Order([Line("a")], Order([Line("b")]))),
        (Point, {"x": 1}, Point(1)),
        (Options, {"depth": 3}, {"depth": 3}),
        (Identity, 5, 5),
        (Annotated[int, "a note"], 5, 5),
        (Customer, {"name": "Bo", "born": "2000-01-01"},
         Customer(name="Bo", born=date(2000, 1, 1))),
        (list[Customer] | None, [{"name": "Bo"}], [Customer(name="Bo")]),
        (Annotated[int, Field(gt=3)], 4, 4),
        (Any, {"whatever": 1}, {"whatever": 1}),
        (object, 1, 1),
        (Wide, {"number": 1}, Wide(1)),
        (SupportsSum, "not judged", "not judged"),
    ],
)  # fmt: skip
def test_a_value_that_fits_is_what_the_annotation_says(
    annotation: Any, given: Any, value: Any
) -> None:
    converted = read(annotation, given)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("annotation", "given", "sentence"),
    [
        (int, "5", "'value' is \"5\": Input should be a valid integer"),
        (int, True, "is true: Input should be a valid integer"),
        (int, 5.5, "is 5.5: Input should be a valid integer"),
        (str, 5, "is 5: Input should be a valid string"),
        (bool, 1, "is 1: Input should be a valid boolean"),
        (str, None, "is null: Input should be a valid string"),
        (Decimal, "NaN", "Input should be a finite number"),
        (date, "yesterday", 'is "yesterday": Input should be a valid date in the format'),
        (datetime, 5, "Input should be a valid datetime"),
        (timedelta, "a while", "Input should be a valid duration"),
        (timedelta, 90, "Input should be a valid duration"),
        (UUID, "u", "Input should be a valid UUID"),
        (Colour, "blue", "Input should be 'red' or 'green'"),
        (Literal["a"], ["a"], "Input should be 'a'"),
        (int | None, "a", "Input should be a valid integer"),
        (list[int], 5, "Input should be a valid array"),
        (list[int], [1, "b"], "'value[1]' is \"b\": Input should be a valid integer"),
        (tuple[int, str], [1], "'value[1]' is missing"),
        (dict[str, list[int]], {"a": [None]}, "'value.a[0]' is null"),
        (dict[int, int], {"a": 1}, "'value.a.[key]' is \"a\""),
        (Line, {"text": "a", "amuont": 1}, "'value.amuont' is 1: Unexpected keyword argument"),
        (Line, {}, "'value.text' is missing"),
        (Order | None, {"lines": [{"text": 5}]}, "'value.lines[0].text' is 5"),
        (Order, {"lines": []}, "an order has lines"),
        (Connection, 1, "'value' is 1: JSON has no values of the class that is annotated"),
        (Wide, {"number": 1, "connection": 2}, "'value.connection' is 2: JSON has no values of"),
        (Unresolved, {}, "not fully defined"),
        (Customer, {"name": "B"}, "'value.name' is \"B\": String should have at least 2"),
        (list[Customer], [{"born": 1, "nam": 2}], "'value[0].name' is missing; 'value[0].born'"),
        (Annotated[int, Field(gt=3)], 3, "greater than 3"),
        (int, "z" * 10_000, "zzz… (10002 characters)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_its_place_its_value_and_what_is_expected(
    annotation: Any, given: Any, sentence: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(annotation, given)
    assert sentence in refused.value.message
    assert len(refused.value.message) < 500


def test_names_are_judged_with_a_guess_and_the_parameters_are_told() -> None:
    def report(context: Context, day: date, *, copies: int = 1) -> None: ...

    parameters = Parameters("py:report", report)
    assert parameters.takes_context
    for args, sentence in (
        ({}, "the arg 'day' of py:report is missing"),
        ({"dya": 1}, "py:report takes no arg 'dya'; did you mean 'day'?"),
        ({"day": "2026-01-31", "context": 1}, "py:report takes no arg 'context'"),
    ):
        with pytest.raises(InvalidInput) as refused:
            parameters.values(args)
        assert refused.value.message == sentence
        assert "(day: 'date', *, copies: 'int' = 1)" in str(refused.value.detail)
    assert parameters.values({"day": "2026-01-31"}) == {"day": date(2026, 1, 31)}


def test_the_rest_is_judged_by_its_own_annotation() -> None:
    def takes(first: str, **numbers: int) -> None: ...

    parameters = Parameters("py:takes", takes)
    assert parameters.values({"first": "a", "b": 2}) == {"first": "a", "b": 2}
    with pytest.raises(InvalidInput, match="py:takes: 'c' is"):
        parameters.values({"first": "a", "c": "x"})


def test_a_class_of_an_enclosing_function_and_one_that_stands_below_are_found() -> None:
    @dataclass
    class Inside:
        number: int

    def takes(inside: Inside, later: Below) -> type:
        return Inside

    values = Parameters("py:takes", takes).values({"inside": {"number": 1}, "later": {"number": 2}})
    assert values == {"inside": Inside(1), "later": Below(2)}


def test_an_annotation_that_only_type_checkers_know_is_not_judged_and_hides_no_other() -> None:
    def takes(odd: OnlyForTypeCheckers, number: int) -> None: ...

    parameters = Parameters("py:takes", takes)
    assert parameters.values({"odd": [1], "number": 1}) == {"odd": [1], "number": 1}
    with pytest.raises(InvalidInput, match="'number'"):
        parameters.values({"odd": [1], "number": "x"})


def test_wrapped_partial_and_callable_objects_are_judged_by_what_is_below() -> None:
    def takes(number: int, other: int = 0) -> None: ...

    @wraps(takes)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    class Callable_:  # noqa: N801
        def __call__(self, number: int) -> None: ...

    for function in (wrapped, partial(takes, other=2), Callable_(), Callable_().__call__):
        with pytest.raises(InvalidInput, match="'number'"):
            Parameters("py:takes", function).values({"number": "x"})


def test_args_without_annotations_are_passed_on_as_the_same_object() -> None:
    args: dict[str, Any] = {"left": "1", "right": None}
    empty: dict[str, Any] = {}
    assert Parameters("py:add", lambda left, right: None).values(args) is args
    assert Parameters("py:add", lambda ctx: None).values(empty) is empty


def test_a_validator_that_breaks_is_a_refusal_in_words() -> None:
    def takes(value: Broken) -> None: ...

    with pytest.raises(InvalidInput, match="'value' of py:takes could not be checked: KeyError"):
        Parameters("py:takes", takes).values({"value": {"number": 1}})


def test_several_errors_are_reported_together() -> None:
    class Many(pydantic.BaseModel):
        a: int
        b: int
        c: int
        d: int

    with pytest.raises(InvalidInput) as refused:
        read(Many, {"a": "x", "b": "y", "c": "z"})
    assert "'value.a' is \"x\": Input should be a valid integer" in refused.value.message
    assert "'value.b' is \"y\": Input should be a valid integer" in refused.value.message
    assert "1 more errors" in refused.value.message


def test_pydantic_is_imported_for_handlers_that_need_it_alone() -> None:
    code = (
        "import sys\n"
        "from pgcron_ha.executors.python.parameters import Parameters\n"
        "import pgcron_ha.cli.node\n"
        "def plain(n: int, name: 'str', size: float, near: str | None, far: 'int|None'): ...\n"
        "args = {'n': 1, 'name': 'a', 'size': 5, 'near': None, 'far': 2}\n"
        "assert Parameters('py:plain', plain).values(args) == args\n"
        "assert not sys.modules.keys() & {'pydantic', 'pydantic_core'}\n"
        "def takes(names: list[str]): ...\n"
        "Parameters('py:takes', takes)\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=COMMAND_SECONDS)


def test_pydantic_is_not_imported_for_names_that_only_a_type_checker_knows(tmp_path: Path) -> None:
    (tmp_path / "handlers_of_a_user.py").write_text(
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "from pgcron_ha import App\n"
        "if TYPE_CHECKING:\n"
        "    from typing import Any\n"
        "    from pgcron_ha import Secret\n"
        "app = App()\n"
        "@app.handler('pays')\n"
        "def pays(order: Any, card: Secret[str], note: str | None = None): ...\n"
    )
    code = (
        "import sys\n"
        "sys.path.append(sys.argv[1])\n"
        "from handlers_of_a_user import app\n"
        "app.handlers['py:pays'].check_args({'order': 1, 'card': 'a', 'note': 'b'})\n"
        "assert not sys.modules.keys() & {'pydantic', 'pydantic_core'}\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=COMMAND_SECONDS)


@dataclass
class Broken:
    number: int

    def __post_init__(self) -> None:
        raise KeyError("lost")


@dataclass
class Below:
    number: int
