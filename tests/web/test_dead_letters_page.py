from __future__ import annotations

import re
from urllib.parse import quote

import asyncpg
import pytest

from tests.sessions import own_session
from tests.web.conftest import Site
from tests.web.seed import HOSTILE_NAME


async def fetch(dsn: str, statement: str, *values: object) -> list[asyncpg.Record]:
    connection = await own_session(dsn)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


def groups(page: str) -> list[str]:
    """The text of each cause."""
    body = page.partition('id="groups"')[2].partition("</section>")[0].partition("<tbody>")[2]
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in body.split("<tr")[1:]]


def letters(page: str) -> list[str]:
    """The run numbers of the letters, in their order."""
    body = page.partition('id="letters"')[2]
    cells = re.findall(r'<th scope="row" data-label="Run">(.*?)</th>', body)
    return [re.sub(r"<[^>]+>", "", cell) for cell in cells]


async def test_without_dead_letters_the_page_says_so(site: Site) -> None:
    page = await site.get("/dead")

    assert page.status_code == 200
    assert "No dead letters" in page.text


async def test_letters_are_grouped_by_handler_and_error_class(
    full_site: Site, full_database: str
) -> None:
    rows = await fetch(
        full_database,
        "SELECT handler, error_class, count(*) AS n FROM pgcron.dead_letter GROUP BY 1, 2",
    )

    shown = groups((await full_site.get("/dead")).text)

    assert len(shown) == len(rows)
    for row in rows:
        assert [g for g in shown if row["handler"] in g and re.search(rf"> {row['n']} ", g)]
    # The newest cause first.
    assert "py:image.resize" in shown[0]


async def test_a_cause_chooses_its_letters(full_site: Site, full_database: str) -> None:
    page = await full_site.get("/dead")
    (href,) = re.findall(r'href="([^"]+)"><bdi>SMTPServerDisconnected', page.text)

    chosen = await full_site.get(href.replace("&amp;", "&"))

    rows = await fetch(
        full_database,
        "SELECT run_id FROM pgcron.dead_letter WHERE handler = 'py:billing.reminders'"
        " ORDER BY died_at DESC",
    )
    assert letters(chosen.text) == [str(row["run_id"]) for row in rows]
    assert len(groups(chosen.text)) == 1


async def test_letters_without_an_error_class_are_a_cause_too(
    full_site: Site, full_database: str
) -> None:
    await fetch(
        full_database,
        "UPDATE pgcron.dead_letter SET error_class = NULL, error = NULL"
        " WHERE handler = 'py:image.resize'",
    )

    page = await full_site.get("/dead?class=%28none%29")

    assert len(groups(page.text)) == 1
    assert "no class of error in py:image.resize" in groups(page.text)[0]
    assert len(letters(page.text)) == 4


async def test_redriving_one_makes_a_run_and_the_letter_remembers_it(
    full_site: Site, full_database: str
) -> None:
    page = await full_site.get("/dead?handler=py:image.resize")
    number = letters(page.text)[0]

    answer = await full_site.post(f"/dead/{number}/redrive")
    again = await full_site.post(f"/dead/{number}/redrive")

    (letter,) = await fetch(
        full_database,
        "SELECT redriven_as, closed_by FROM pgcron.dead_letter WHERE run_id = $1",
        int(number),
    )
    assert answer.status_code == 303
    assert answer.headers["location"].endswith("done=redriven")
    assert letter["closed_by"] == "ui:local"
    assert again.status_code == 409
    assert f"It runs again as run {letter['redriven_as']}" in again.text
    redriven = await full_site.get("/dead?state=redriven")
    assert letters(redriven.text) == [number]
    assert "again as" in redriven.text
    assert re.search(rf"again as .*{letter['redriven_as']}.*</span>ready</span>", redriven.text)
    assert "by ui:local" in redriven.text


async def test_one_and_a_cause_are_archived_with_a_note(
    full_site: Site, full_database: str
) -> None:
    page = await full_site.get("/dead?handler=py:image.resize")
    number = letters(page.text)[0]
    (cause,) = re.findall(r'action="([^"]+/archive\?[^"]+)"', page.text)

    one = await full_site.post(f"/dead/{number}/archive")
    others = await full_site.post(cause.replace("&amp;", "&"), note="images were deleted")
    again = await full_site.post(f"/dead/{number}/archive")

    done = [answer.headers["location"].rpartition("=")[2] for answer in (one, others, again)]
    assert done == ["archived", "archived", "archived_none"]
    rows = await fetch(
        full_database,
        "SELECT run_id, closed_by, note FROM pgcron.dead_letter"
        " WHERE handler = 'py:image.resize' AND redriven_as IS NULL AND closed_at IS NOT NULL",
    )
    assert len(rows) == 4
    assert {row["note"] for row in rows if row["run_id"] != int(number)} == {"images were deleted"}
    assert {row["closed_by"] for row in rows} == {"ui:local"}
    assert "py:image.resize" not in (await full_site.get("/dead")).text
    archived = await full_site.get("/dead?state=archived")
    assert len(letters(archived.text)) == 4
    assert "archived: images were deleted" in archived.text
    run = await full_site.get(f"/runs/{number}")
    assert "Archived by ui:local." in run.text


async def test_letters_that_no_filter_names_are_left_as_they_are(
    full_site: Site, full_database: str
) -> None:
    query = "SELECT count(*) AS open FROM pgcron.dead_letter WHERE closed_at IS NULL"
    before = await fetch(full_database, query)

    answers = [await full_site.post(f"/dead/{verb}") for verb in ("redrive", "archive")]

    assert [answer.status_code for answer in answers] == [400, 400]
    for answer in answers:
        assert "At least one filter says which ones are meant." in answer.text
    assert await fetch(full_database, query) == before


async def test_open_causes_stand_before_those_that_were_redriven(
    full_site: Site, full_database: str
) -> None:
    await fetch(
        full_database,
        "SELECT pgcron.redrive(run_id) FROM pgcron.dead_letter WHERE handler = 'py:image.resize'",
    )

    shown = groups((await full_site.get("/dead?state=all")).text)
    still_open = groups((await full_site.get("/dead")).text)

    assert "py:image.resize" in shown[-1]
    assert "0 open" in shown[-1]
    assert "Redrive one" not in shown[-1]
    assert not [group for group in still_open if "py:image.resize" in group]


@pytest.mark.parametrize("state", ["open", "all"])
async def test_every_letter_is_on_exactly_one_page(
    full_site: Site, full_database: str, state: str
) -> None:
    # Forty more that died in one transaction, so at one instant.
    await fetch(
        full_database,
        """INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args,
             delivery, timeout, attempts)
           SELECT 900000 + n, gen_random_uuid(), 'dead', 'bulk', 5, 'py:bulk', '{}',
             'at_least_once', '1 h', 5 FROM generate_series(1, 40) n""",
    )
    seen: list[str] = []
    path: str | None = f"/dead?state={state}"
    while path is not None:
        page = await full_site.get(path)
        seen += letters(page.text)
        found = re.search(r'href="([^"]+)" rel="next"', page.text)
        path = found[1].replace("&amp;", "&") if found else None

    rows = await fetch(full_database, "SELECT run_id FROM pgcron.dead_letter")
    assert len(seen) == len(set(seen))
    assert set(seen) == {str(row["run_id"]) for row in rows}


async def test_a_lost_run_warns_that_it_may_have_taken_effect(
    full_site: Site, full_database: str
) -> None:
    await fetch(
        full_database,
        "UPDATE pgcron.dead_letter SET outcome = 'lost' WHERE handler = 'py:image.resize'",
    )

    page = await full_site.get("/dead?handler=py:image.resize")

    assert "4 lost: nobody knows whether they took effect" in page.text
    assert "Look before you redrive it." in page.text


async def test_errors_and_args_of_any_kind_are_shown_harmlessly(
    full_site: Site, full_database: str
) -> None:
    await fetch(
        full_database,
        "UPDATE pgcron.dead_letter SET error = $1, error_class = $2, args = $3"
        " WHERE handler = 'py:image.resize'",
        "\x1b[31mred\x1b[0m </pre><script>alert(1)</script>\n" + "x" * 9000,
        "<script>alert(2)</script>\u202e",
        '{"a": "</pre><script>alert(3)</script>"}',
    )

    page = await full_site.get("/dead")
    named = await full_site.get(f"/dead?schedule={quote(HOSTILE_NAME, safe='')}")

    for text in (page.text, named.text):
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "cut here; the run has the rest" in page.text
    assert len(letters(named.text)) == 1


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/dead?state=opn", 400, "Did you mean &#39;open&#39;?"),
        ("/dead?page=2", 400, "unknown field &#39;page&#39;"),
        ("/dead?before=-2", 400, "Leave &#39;before&#39; out"),
        ("/dead?before=0001-01-01T00:00:00%2B14:00,1", 400, "Leave &#39;before&#39; out"),
        ("/dead?before=2026-01-01T00:00:00Z,99999999999999999999", 400, "is not a page"),
        ("/dead?handler=py:nothing", 200, "No dead letter matches"),
        ("/dead?handler=%00", 400, ""),
    ],
)
async def test_bad_input_is_a_page_that_says_so(
    read_site: Site, path: str, status: int, hint: str
) -> None:
    page = await read_site.get(path)

    assert page.status_code == status
    assert hint in page.text


@pytest.mark.parametrize("number", ["0", "x", "99999999999999999999", "%C2%B2", "123456789"])
async def test_redriving_what_does_not_exist_is_a_404(full_site: Site, number: str) -> None:
    answer = await full_site.post(f"/dead/{number}/redrive")

    assert answer.status_code == 404


async def test_what_died_in_another_way_is_another_cause(
    full_site: Site, full_database: str
) -> None:
    await fetch(
        full_database,
        "UPDATE pgcron.dead_letter SET fingerprint = CASE run_id % 2 WHEN 0 THEN 'even'"
        " ELSE 'odd' END WHERE handler = 'py:image.resize'",
    )
    page = (await full_site.get("/dead?handler=py:image.resize")).text

    assert len(groups(page)) == 2
    (href,) = re.findall(r'href="([^"]+group=even[^"]*)"><bdi>', page)
    chosen = await full_site.get(href.replace("&amp;", "&"))
    assert {int(number) % 2 for number in letters(chosen.text)} == {0}


async def test_a_cause_is_redriven_at_a_rate_and_each_letter_once(
    full_site: Site, full_database: str
) -> None:
    page = (await full_site.get("/dead")).text
    assert "Redrive 4</button>" in page
    (href,) = re.findall(r'action="(/dead/redrive\?handler=py%3Aimage.resize[^"]*)"', page)

    first = await full_site.post(href.replace("&amp;", "&"), rate="60")
    again = await full_site.post(href.replace("&amp;", "&"), rate="60")

    assert (first.status_code, again.status_code) == (303, 303)
    assert first.headers["location"].endswith("done=redriven_cause")
    assert again.headers["location"].endswith("done=redriven_none")
    rows = await fetch(
        full_database,
        "SELECT extract(epoch FROM due_at - min(due_at) OVER ())::int AS later, created_by"
        " FROM pgcron.run WHERE origin = 'redrive' ORDER BY due_at",
    )
    assert [(row["later"], row["created_by"]) for row in rows] == [
        (second, "ui:local") for second in range(4)
    ]


@pytest.mark.parametrize(
    ("query", "rate"), [("", ""), ("", "10"), ("?handler=py:x", "7"), ("?a=b", "")]
)
async def test_redriving_no_cause_is_refused(full_site: Site, query: str, rate: str) -> None:
    answer = await full_site.post(f"/dead/redrive{query}", rate=rate)

    assert answer.status_code == 400
