from __future__ import annotations

import re
from html import unescape

from tests.docs.blocks import DOCS
from tests.web.conftest import Site

NAMES = sorted(path.stem for path in DOCS.rglob("*.md"))
HREF = re.compile(r'href="([^"]+)"')


def article(html: str) -> str:
    return html.partition("<article")[2].partition("</article>")[0]


async def test_the_documents_begin_with_the_first_hour(site: Site) -> None:
    assert "Your first hour</h1>" in article((await site.get("/docs")).text)


async def test_each_document_is_listed_and_its_links_lead_somewhere(site: Site) -> None:
    pages = {name: (await site.get(f"/docs/{name}")).text for name in NAMES}

    broken = []
    for name, html in pages.items():
        listed = HREF.findall(html.partition('class="docs-list"')[2].partition("</nav>")[0])
        assert sorted(link.rpartition("/")[2] for link in listed) == NAMES
        for link in map(unescape, HREF.findall(article(html))):
            if link.startswith(("https://", "http://127.0.0.1")):
                continue
            other, _, place = link.partition("#")
            target = pages.get(other.removeprefix("/docs/") or name)
            if target is None or (place and f'id="{place}"' not in target):
                broken.append(f"{name}: {link}")
    assert broken == []
    assert [name for name, html in pages.items() if "&lt;!--" in html] == []


async def test_links_of_a_document_keep_the_zone_that_was_chosen(site: Site) -> None:
    page = article((await site.get("/docs/on-call?tz=Europe/Berlin")).text)
    links = [link for link in map(unescape, HREF.findall(page)) if link.startswith("/docs")]

    assert links
    for link in links:
        assert re.fullmatch(r"/docs/[\w-]+\?tz=Europe%2FBerlin(#.*)?", link)
    assert (await site.get(links[0])).status_code == 200


async def test_a_document_that_is_not_there_is_answered_with_near_ones(site: Site) -> None:
    page = await site.get("/docs/tutorail")

    assert page.status_code == 404
    assert 'href="/docs/tutorial"' in page.text


async def test_each_page_names_the_document_about_it(read_site: Site) -> None:
    for path, name in {"/": "on-call", "/runs": "states", "/calendars": "specs"}.items():
        page = (await read_site.get(path)).text
        assert f'<a href="/docs/{name}">About this page</a>' in page
        assert (await read_site.get(f"/docs/{name}")).status_code == 200
