"""Who may ask: API keys, TLS, and browsers that other sites send here."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..configuration.settings import Settings
from ..errors import ConfigurationError

MIN_KEY = 16
#: Answered to anybody: what tells a load balancer that the service lives, and the page without data.
OPEN_PATHS = frozenset({"/", "/health", "/v2/health/live", "/v2/health/ready"})

#: Headers of a page that runs its own script and asks its own service, nothing else.
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class ApiKeys:
    """Keys by name. Only their hashes stay in memory, and looking one up takes no longer the more of it is right."""

    def __init__(self, path: Path) -> None:
        try:
            lines = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError([f"api_keys: {path} cannot be read: {error}"]) from None
        self._names: dict[bytes, str] = {}
        problems = []
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 2 or len(words[1]) < MIN_KEY:
                problems.append(f"{path}:{number}: expected NAME KEY, with a key of {MIN_KEY} characters or more")
            else:
                self._names[_hash(words[1].encode())] = words[0]
        if not problems and not self._names:
            problems.append(f"{path}: no key stands in it: expected lines of NAME KEY")
        if problems:
            raise ConfigurationError(problems)

    def name_of(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Whose key a request has (`Authorization: Bearer KEY` or `X-API-Key: KEY`), None if none that is known."""
        key = headers.get(b"x-api-key", b"")
        if not key:
            scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
            key = value.strip() if scheme.lower() == b"bearer" else b""
        return self._names.get(_hash(key)) if key else None


def _hash(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refusal(headers: Mapping[bytes, bytes], loopback: bool) -> str:
    """Why a browser's request is refused, empty if it is not.

    Pages of other sites may send requests here, and a name that points at 127.0.0.1 gets past the same-origin rule.
    """
    host = headers.get(b"host", b"").decode("latin-1")
    if loopback and not is_loopback(urlsplit(f"//{host}").hostname or ""):
        return f"the service listens on this machine only, and {host[:100]!r} is not its name"
    origin = headers.get(b"origin")
    if origin is not None and urlsplit(origin.decode("latin-1")).netloc != host:
        return f"a page of {origin.decode('latin-1')[:100]} may not use this service"
    return ""


def tls_options(settings: Settings) -> dict[str, Any]:
    """uvicorn's options for HTTPS, empty for HTTP; files that do not fit are a ConfigurationError."""
    certificate, key, authority = (settings[name] for name in ("tls_certificate", "tls_key", "tls_client_ca"))
    if not certificate:
        for name in ("tls_key", "tls_client_ca"):
            if settings[name]:
                raise ConfigurationError([f"{name} is set, but tls_certificate is not"])
        return {}
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key or None)
        if authority:
            context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError([f"tls_certificate, tls_key, tls_client_ca: the files do not fit: {error}"]) from None
    options: dict[str, Any] = {"ssl_certfile": certificate, "ssl_keyfile": key or None}
    if authority:
        options |= {"ssl_ca_certs": authority, "ssl_cert_reqs": int(ssl.CERT_REQUIRED)}
    return options


class AuditLog:
    """A line of JSON for each request, appended in one write: who, when, what, and what came of it."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError([f"audit_log: {path} cannot be written: {error.strerror}"]) from None

    def write(self, row: Mapping[str, Any]) -> None:
        """Appends a request."""
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"
        os.write(self._file, (json.dumps({"time": stamp, **row}) + "\n").encode())

    def close(self) -> None:
        """Afterwards nothing may be written."""
        os.close(self._file)
