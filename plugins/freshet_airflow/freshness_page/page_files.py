"""The page's own files, and files of folders in general."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import HTTPException, Request, Response
from fastapi.staticfiles import StaticFiles

FOLDER = Path(__file__).with_name("static")


async def page_file(path: str, request: Request) -> Response:
    """A file of the page; the empty path is the page itself. Raises like `file_below`."""
    return await file_below(FOLDER, path, request)


async def file_below(folder: Path, path: str, request: Request) -> Response:
    """A file in a folder or below it, or that the browser's copy of it is still right.

    Args:
        folder: it need not exist.
        path: of the file, relative to the folder; of a folder its index.html is meant.
        request: tells what the browser has.

    Raises:
        HTTPException: 404, there is no such file; whatever the path leads to outside counts as nothing.
    """
    files = StaticFiles(directory=folder, html=True, check_dir=False)
    try:
        return await files.get_response(os.path.normpath(path), request.scope)
    except ValueError:  # a zero byte
        raise HTTPException(404) from None
