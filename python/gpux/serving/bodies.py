"""Bodies of requests: read up to a limit, uncompressed up to the same limit."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from ..configuration.sizes import format_bytes
from ..errors import InputError, RequestTimeoutError, TooLargeError


class ClientLeftError(Exception):
    """The client closed its connection: there is nobody to answer."""


async def read_body(request: Any, limit: int, timeout: float) -> bytes:
    """The body of a Starlette request; TooLargeError beyond `limit` bytes, RequestTimeoutError after `timeout` s."""
    declared = request.headers.get("content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    message = await request.receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        try:
            body = await asyncio.wait_for(_read_rest(request, body, limit), timeout)
        except asyncio.TimeoutError:
            raise RequestTimeoutError(f"the body did not arrive within {timeout:g} s") from None
    if message["type"] == "http.disconnect":
        raise ClientLeftError
    if len(body) > limit:
        raise _too_large(limit)
    encoding = request.headers.get("content-encoding", "identity")
    return body if encoding == "identity" else _uncompress(body, encoding, limit)


async def _read_rest(request: Any, body: bytes, limit: int) -> bytes:
    parts, size = [body], len(body)
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return b"".join(parts)


def _uncompress(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding not in ("gzip", "deflate"):
        raise InputError(f"Content-Encoding {encoding[:40]!r} is not taken; gzip, deflate and identity are")
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # either header
    try:
        content = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise InputError(f"the body is not {encoding}: {error}") from None
    if len(content) > limit:
        raise _too_large(limit)
    if not stream.eof:
        raise InputError(f"the body is not {encoding}: it was cut short")
    return content


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"the body has more than {format_bytes(limit)}; max_body sets the limit")
