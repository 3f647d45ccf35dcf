"""Addresses: what they may say, and that nothing of their secrets is shown."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import psycopg_pool
import pytest
from factmem_postgres import PostgresMemoryProvider

from factmem.errors import InvalidDataError, StoreUnavailableError
from factmem.providers.registry import open_provider, without_secrets
from factmem.testing.conformance.samples import CITY, PLANNER, USER, single
from tests.tables import each_case

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

SECRET = "hunter2-of-the-cellar"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_an_address_is_a_url(scheme: str, anyio_backend: str) -> None:
    provider = open_provider(f"{scheme}://ada:{SECRET}@db.example:6432/facts?schema=mine&pool_size=3&sslmode=require")
    assert isinstance(provider, PostgresMemoryProvider)
    assert "facts" in repr(provider)
    assert "mine" in repr(provider)
    assert SECRET not in repr(provider)


@each_case("address")
def test_an_address_that_cannot_be_read_is_refused_without_showing_it(address: str, anyio_backend: str) -> None:
    with pytest.raises(InvalidDataError) as refused:
        open_provider(address.replace("{}", SECRET))
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_an_unknown_option_is_named_unless_it_may_be_a_part_of_a_password(anyio_backend: str) -> None:
    with pytest.raises(InvalidDataError, match="has no option poolsize; it has schema, pool_size, timeout"):
        open_provider(f"postgresql://ada:{SECRET}@db/facts?poolsize=3&sslmode=require")
    with pytest.raises(InvalidDataError, match="must look like") as refused:
        open_provider(f"postgresql://ada:?{SECRET}=x@db/facts")
    assert SECRET not in str(refused.value)


@each_case("address", "shown")
def test_an_address_is_shown_without_its_password(address: str, shown: str, anyio_backend: str) -> None:
    assert without_secrets(address.replace("{}", SECRET)) == shown


@pytest.mark.parametrize("given", [None, 3, b"postgresql://"])
def test_what_is_no_address_is_refused(given: Any, anyio_backend: str) -> None:
    with pytest.raises(InvalidDataError):
        PostgresMemoryProvider(given)


async def test_a_server_that_cannot_be_reached_is_reported_at_once_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    address = f"postgresql://ada:{SECRET}@127.0.0.1:1/facts?sslpassword={SECRET}"
    async with PostgresMemoryProvider(address) as provider:
        for call in (provider.load(CITY, USER, PLANNER), provider.save(single(CITY, "Oslo"), USER, PLANNER)):
            with pytest.raises(StoreUnavailableError, match="check the address") as refused:
                await call
            assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert SECRET not in caplog.text


def test_failed_attempts_of_our_pools_are_not_logged_and_those_of_others_are(
    caplog: pytest.LogCaptureFixture, anyio_backend: str
) -> None:
    """A program without logging set up would print dozens of lines while the server is away."""
    for name in ("factmem facts", "another"):
        with (
            psycopg_pool.ConnectionPool(
                "host=127.0.0.1 port=9", min_size=1, name=name, reconnect_timeout=0.1, open=True
            ) as pool,
            pytest.raises(psycopg_pool.PoolTimeout),
        ):
            pool.wait(timeout=0.5)
    assert "error connecting in 'another'" in caplog.text
    assert "factmem facts" not in caplog.text
