"""Files of ``web/static``: their names carry a hash, so browsers keep them for ever."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pgcron_ha.web.address import NoSuch
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.templating import static_files

_FOR_EVER: Final = "public, max-age=31536000, immutable"


async def show_static_file(page_request: PageRequest) -> Response:
    """One file by its name with hash; NoSuch for any other name."""
    name = page_request.segment("file")
    files = {known: (content, kind) for known, content, kind in static_files().values()}
    if name not in files:
        rule = "Names of files carry a hash of their content."
        raise NoSuch("file", name, rule, hint="Load the page that asked for it again.")
    content, content_type = files[name]
    headers = {"cache-control": _FOR_EVER, "content-type": content_type}
    return Response(content, headers=headers)
