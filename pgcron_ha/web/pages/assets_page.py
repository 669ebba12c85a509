"""Files of ``web/static``: their names carry a hash, so browsers keep them for ever."""

from __future__ import annotations

from typing import Final

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from pgcron_ha.errors import NotFound
from pgcron_ha.web.page_request import PageRequest

_FOR_EVER: Final = "public, max-age=31536000, immutable"


async def show_static_file(page_request: PageRequest) -> Response:
    """One file by its name with hash; NotFound for any other name."""
    name = page_request.segment("file")
    file = page_request.services.static.find(name)
    if file is None:
        raise NotFound(
            f"there is no file '{name[:100]}'",
            "Names of files carry a hash of their content.",
            "Load the page that asked for it again.",
        )
    headers = {"cache-control": _FOR_EVER, "content-type": file.content_type}
    return Response(file.content, headers=headers)


async def show_icon(page_request: PageRequest) -> Response:
    """Where browsers look for an icon that no page names."""
    file = page_request.services.static.named("icon.svg")
    return RedirectResponse(page_request.link("static", file=file), 302)


async def show_robots(page_request: PageRequest) -> Response:
    """Nothing here is for search engines."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")
