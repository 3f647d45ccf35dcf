"""Addresses of databases. Only this module and the driver see their secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict

from factmem.errors import InvalidDataError
from factmem.providers.threaded import seconds_option

_OPTIONS: Final = ("schema", "pool_size", "timeout")
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MOST_CONNECTIONS: Final = 100
_UNPARSABLE: Final = (
    "it must look like postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password "
    "percent-encoded"
)


@attrs.frozen(kw_only=True)
class Address:
    """An address, parsed.

    Attributes:
        name: Database and host, for messages.
        connection: Parameters of libpq, with the password.
        schema: Schema of the tables.
        pool_size: Maximum number of connections.
        timeout: Longest wait for a connection and for another writer, in seconds.
    """

    name: str
    connection: Mapping[str, str | int | None] = attrs.field(repr=False)
    schema: str
    pool_size: int
    timeout: float

    @classmethod
    def parse(cls, address: object, options: Mapping[str, object]) -> Address:
        """Return an address from its text.

        Args:
            address: URL, or pairs ``key=value``, as libpq reads them; a URL may also have the options of the provider.
            options: Options of the provider that replace those of the URL; None for those not given.

        Raises:
            InvalidDataError: It cannot be read. The error does not show it.
        """
        if not isinstance(address, str):
            raise InvalidDataError(f"an address must be a text, not {type(address).__name__}", path="$.address")
        url, given = _split(address)
        chosen = {**given, **{name: value for name, value in options.items() if value is not None}}
        connection = _parameters(url)
        return cls(
            name=_shown(connection),
            connection=connection,
            schema=_schema(chosen.get("schema", "factmem")),
            pool_size=_size(chosen.get("pool_size", 8)),
            timeout=_seconds(chosen.get("timeout", 10.0)),
        )

    def without_secrets(self, text: str) -> str:
        """Return a text of the driver or the server without what must not be shown."""
        for name in ("password", "sslpassword"):
            if secret := self.connection.get(name):
                text = text.replace(str(secret), "…")
        return text


def _split(address: str) -> tuple[str, dict[str, str]]:
    """Return an address without the options of the provider, and these."""
    if "://" not in address:
        return address, {}
    try:
        parts = urlsplit(address)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise InvalidDataError(f"the address cannot be read: {_UNPARSABLE}", path="$.address") from None
    known = {*_OPTIONS, "ssl", *(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults())}
    if "@" not in parts.query and (unknown := [name for name, _ in pairs if name not in known]):  # else a password
        raise InvalidDataError(
            f"the address has no option {', '.join(unknown)}; it has {', '.join(_OPTIONS)} and those of libpq",
            path="$.address",
        )
    for_libpq = urlencode([(name, value) for name, value in pairs if name not in _OPTIONS])
    return urlunsplit(parts._replace(query=for_libpq)), {name: value for name, value in pairs if name in _OPTIONS}


def _parameters(url: str) -> dict[str, str | int | None]:
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        raise InvalidDataError(f"the address cannot be read: {_UNPARSABLE}", path="$.address") from None
    # The rest of a password with an @ in it would be shown as the name of a host.
    if any("@" in str(parameters.get(name) or "") for name in ("host", "port")):
        raise InvalidDataError(f"the address has more than one @: {_UNPARSABLE}", path="$.address")
    return dict(parameters)


def _shown(connection: Mapping[str, object]) -> str:
    database = connection.get("dbname") or connection.get("user") or "the user's own"
    host = connection.get("host") or connection.get("hostaddr") or "this machine"
    return f"the PostgreSQL database {database} at {host}"


def _schema(name: object) -> str:
    if not isinstance(name, str) or not _SCHEMA.fullmatch(name):
        raise InvalidDataError(
            "schema must be a name of small letters, digits and underscores, of at most 63 characters", path="$.schema"
        )
    return name


def _size(given: object) -> int:
    try:
        size = int(str(given))
    except ValueError:
        size = 0
    if not 1 <= size <= _MOST_CONNECTIONS:
        raise InvalidDataError(f"pool_size must be a number from 1 to {_MOST_CONNECTIONS}", path="$.pool_size")
    return size


def _seconds(given: object) -> float:
    return seconds_option(given if isinstance(given, str | float | int) else "", "timeout")
