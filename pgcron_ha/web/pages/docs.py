"""``/docs``: the documents that the package carries, as pages; and files of ``web/static``, whose
names carry a hash, so browsers keep them for ever.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from starlette.responses import Response

from pgcron_ha.documents import SECTIONS, documents
from pgcron_ha.web.address import NoSuch
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.templating import static_files

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
# Another page, as one page names it for those who read the folder: ../how-to/retries.md#waits
_PAGE_LINK: Final = re.compile(r"^(?:\.\./)*(?:[\w-]+/)?([\w-]+)\.md((?:#.*)?)$")
_NAMED_PAGE: Final = re.compile(r'href="page:([\w-]+)')
_COMMENT: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_NOT_OF_A_SLUG: Final = re.compile(r"[^\w\- ]")
_FOR_EVER: Final = "public, max-age=31536000, immutable"


async def show_document(page_request: PageRequest) -> Response:
    """One page, the first unless the path names another, beside the list of all."""
    page_request.query()
    name = page_request.segments.get("name", next(iter(documents())))
    pages = documents()
    if name not in pages:
        rule = "The documents are those of this version."
        raise NoSuch("document", name, rule, page_request.near("document", name, list(pages)))
    return page_request.page(
        "docs.html",
        None,
        title=pages[name].title,
        is_still=True,
        sections=SECTIONS,
        pages=pages,
        current=name,
        html=_linked(_html(pages[name].text), page_request),
    )


def _linked(html: str, page_request: PageRequest) -> Markup:
    """With the addresses of the pages that it names."""

    def href(found: re.Match[str]) -> str:
        return f'href="{escape(page_request.link("document", name=found[1]))}'

    return Markup(_NAMED_PAGE.sub(href, html))


@cache
def _html(text: str) -> str:
    """The text is the package's own; comments are left out, other HTML in it is only text.

    Each heading gets an id, as GitHub makes it; a link to another page is ``page:NAME``, as its
    address depends on the request.
    """
    tokens = _MARKDOWN.parse(_COMMENT.sub("", text))
    for token, after in pairwise(tokens):
        if token.type == "heading_open":
            token.attrs["id"] = slug(after.content)
        if token.attrs.get("style") == "text-align:right":
            token.attrs = {"class": "right"}
        for link in token.children or ():
            if link.type == "link_open":
                link.attrs["href"] = _PAGE_LINK.sub(r"page:\1\2", str(link.attrs["href"]))
    return str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def slug(heading: str) -> str:
    """What a link to a heading ends with: ``#how-long``."""
    return _NOT_OF_A_SLUG.sub("", heading.replace("`", "")).strip().lower().replace(" ", "-")


async def show_static_file(page_request: PageRequest) -> Response:
    """One file by its name with hash; NoSuch for any other name."""
    name = page_request.segments["file"]
    for known, content, content_type in static_files().values():
        if known == name:
            headers = {"cache-control": _FOR_EVER, "content-type": content_type}
            return Response(content, headers=headers)
    rule = "Names of files carry a hash of their content."
    raise NoSuch("file", name, rule, hint="Load the page that asked for it again.")
