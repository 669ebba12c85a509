"""Specs on assets: no time fires them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgcron_ha.errors import InvalidSpec
from tests.product.engine import decide
from tests.product.spec import parse_spec, preview, sentence, why_not

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "canonical", "assets"),
    [
        ("on asset sales", "on asset sales", ("sales",)),
        (" On  ASSET sales AND Stock\n", "on asset Stock and sales", ("Stock", "sales")),
        ("on asset b and a and b", "on asset a and b", ("a", "b")),
        ("on asset s3://lake/a=1", "on asset s3://lake/a=1", ("s3://lake/a=1",)),
    ],
)
def test_a_spec_names_its_assets(text: str, canonical: str, assets: tuple[str, ...]) -> None:
    spec = parse_spec(text)

    assert (spec.canonical, spec.assets) == (canonical, assets)
    assert parse_spec(canonical) == spec
    assert parse_spec("@daily").assets == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("on", '"on" names no assets'),
        ("on asset", '"on asset" names no assets'),
        ("on assets a and b", '"on assets a and b" names no assets'),
        ("on asset a b", '"on asset a b" names no assets'),
        ("on asset a and", '"on asset a and" names no assets'),
        ("on asset and and b", '"on asset and and b" names no assets'),
        ("on asset a or b", '"on asset a or b" names no assets'),
        ("on asset a,b", '"on asset a,b" names no assets'),
        ("on asset " + "x" * 101, f'"on asset {"x" * 51}" names no assets'),
        ("on asset a\n@daily", "the spec has a line on assets and another one"),
        ("on asset a\non asset b", "the spec has a line on assets and another one"),
        ("on asset a\nuntil 2026-12-24T18:00", "the spec has a line on assets and another one"),
    ],
)
def test_what_is_no_list_of_assets_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_spec(text)

    assert refusal.value.message == message


def test_it_has_no_fire_and_is_not_over() -> None:
    spec = parse_spec("on asset sales and stock")
    ahead = preview(spec, NOW, 3)

    assert (spec.next(NOW), spec.previous(NOW), spec.count(NOW, NOW + timedelta(9), 9)) == (
        *(None, None),
        0,
    )
    assert (ahead.fires, ahead.is_over) == ((), False)
    assert why_not(spec, NOW) == "it runs when its assets were updated, and at no set times"


@pytest.mark.parametrize(
    ("text", "overlap", "said"),
    [
        ("on asset sales", "skip", "When asset sales was updated."),
        ("on asset a and b", "skip", "When assets a and b were updated."),
        (
            "on asset sales",
            "queue",
            "When asset sales was updated; if the last run is not over, the fire waits for its"
            " end.",
        ),
    ],
)
def test_a_sentence_says_when_it_runs(text: str, overlap: str, said: str) -> None:
    assert sentence(parse_spec(text), {"overlap": overlap, "catchup": "latest"}) == said


def test_nothing_of_it_is_decided_ahead() -> None:
    row = {
        "spec": "on asset sales",
        **{"timezone": "UTC", "dst": "vixie", "uuid": "-", "calendars": None, "now": NOW},
        **{"watermark": NOW - timedelta(days=9), "max_runs": None, "jitter": None},
    }
    plan, canonical = decide(row, 600)

    assert (plan.fires, plan.missed, plan.next_fire) == ([], [], None)
    assert (plan.watermark, canonical) == (row["watermark"], "on asset sales")
