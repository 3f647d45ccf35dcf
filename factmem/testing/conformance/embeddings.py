"""Specs of `KeepsVectors`."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from factmem.abc import (
    AgentMemoryProvider,
    Append,
    EmbedderIdentity,
    KeepsHistory,
    KeepsVectors,
)
from factmem.errors import EmbedderMismatchError, InvalidVectorError
from factmem.records import Place
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import LANGUAGES, PLANNER, USER, keep, only, said

__all__ = ["VectorSpecs"]

_ONE = EmbedderIdentity(name="one", dimension=4)
_TWO = EmbedderIdentity(name="two", dimension=3)
_WRONG = {
    "nan": [1, float("nan"), 0, 0],
    "infinite": [1, float("inf"), 0, 0],
    "zero": [0, 0, 0, 0],
    "too short": [1, 2, 3],
    "too long": [1, 2, 3, 4, 5],
    "empty": [],
}


def _vector(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, dtype=np.float32)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class VectorSpecs(ProviderCase):
    """Specs of embeddings."""

    async def test_a_store_is_bound_to_no_embedder_at_first(self, vectors: KeepsVectors) -> None:
        assert await vectors.embedder() is None
        await vectors.use_embedder(_ONE)
        assert await vectors.embedder() == _ONE

    async def test_vectors_read_back_as_directions(self, history: KeepsHistory, vectors: KeepsVectors) -> None:
        """Vectors have length 1, whatever their length was, in the order of their numbers."""
        await vectors.use_embedder(_ONE)
        first, second = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        long, short = _vector(3, 0, 4, 0), _vector(0, 1e-3, 0, 0)
        await vectors.put_vectors(None, {second.recorded.seq: short, first.recorded.seq: long})
        numbers, rows = await vectors.vectors(None)
        assert list(numbers) == [first.recorded.seq, second.recorded.seq]
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, [_unit(long), _unit(short)], atol=1e-6)

    async def test_a_vector_can_come_with_its_assertion(self, history: KeepsHistory, vectors: KeepsVectors) -> None:
        await vectors.use_embedder(_ONE)
        (receipt,) = await history.append([Append(assertion=said(LANGUAGES, "Thai"), vector=_vector(0, 0, 2, 0))])
        numbers, rows = await vectors.vectors(None)
        assert list(numbers) == [receipt.recorded.seq]
        np.testing.assert_allclose(rows, [[0, 0, 1, 0]], atol=1e-6)

    async def test_there_may_be_no_vectors(self, history: KeepsHistory, vectors: KeepsVectors) -> None:
        await vectors.use_embedder(_ONE)
        await only(history, said(LANGUAGES, "Thai"))
        numbers, rows = await vectors.vectors(None)
        assert list(numbers) == []
        assert rows.shape == (0, 4)

    @pytest.mark.parametrize("wrong", _WRONG.values(), ids=_WRONG.keys())
    async def test_an_unfit_vector_is_refused_with_its_assertion(
        self, history: KeepsHistory, vectors: KeepsVectors, wrong: list[float]
    ) -> None:
        await vectors.use_embedder(_ONE)
        statements = [
            Append(assertion=said(LANGUAGES, "Thai"), vector=_vector(1, 0, 0, 0)),
            Append(assertion=said(LANGUAGES, "Ewe"), vector=_vector(*wrong)),
        ]
        with pytest.raises(InvalidVectorError):
            await history.append(statements)
        assert list(await history.entries(Place(USER, PLANNER))) == []
        assert list((await vectors.vectors(None))[0]) == []

    @pytest.mark.parametrize("wrong", _WRONG.values(), ids=_WRONG.keys())
    async def test_an_unfit_vector_is_refused_with_its_companions(
        self, history: KeepsHistory, vectors: KeepsVectors, wrong: list[float]
    ) -> None:
        await vectors.use_embedder(_ONE)
        first, second = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        given = {first.recorded.seq: _vector(1, 0, 0, 0), second.recorded.seq: _vector(*wrong)}
        with pytest.raises(InvalidVectorError):
            await vectors.put_vectors(None, given)
        assert list((await vectors.vectors(None))[0]) == []

    async def test_a_vector_before_any_embedder_is_refused(self, history: KeepsHistory, vectors: KeepsVectors) -> None:
        """A vector without an embedder's identity is refused, not dropped."""
        known = await only(history, said(LANGUAGES, "Thai"))
        with pytest.raises(InvalidVectorError):
            await vectors.put_vectors(None, {known.seq: _vector(1, 0, 0, 0)})
        with pytest.raises(InvalidVectorError):
            await history.append([Append(assertion=said(LANGUAGES, "Ewe"), vector=_vector(1, 0, 0, 0))])
        assert list(await history.entries(Place(USER, PLANNER))) == [known]
        assert list((await vectors.vectors(None))[0]) == []

    async def test_vectors_of_unknown_numbers_are_passed_over(
        self, history: KeepsHistory, vectors: KeepsVectors
    ) -> None:
        await vectors.use_embedder(_ONE)
        known = await only(history, said(LANGUAGES, "Thai"))
        await vectors.put_vectors(None, {known.seq: _vector(1, 0, 0, 0), 10**6: _vector(1, 0, 0, 0)})
        assert list((await vectors.vectors(None))[0]) == [known.seq]

    async def test_vectors_are_of_one_tenant_and_go_on_after_any_number(
        self, history: KeepsHistory, vectors: KeepsVectors
    ) -> None:
        await vectors.use_embedder(_ONE)
        mine = [await _embedded(history, f"{number}") for number in range(3)]
        theirs = await _embedded(history, "x", tenant="acme")
        assert list((await vectors.vectors(None))[0]) == mine
        assert list((await vectors.vectors("acme"))[0]) == [theirs]
        assert list((await vectors.vectors(None, mine[0]))[0]) == mine[1:]
        assert list((await vectors.vectors(None, mine[-1]))[0]) == []

    async def test_vectors_are_put_for_one_tenant(self, history: KeepsHistory, vectors: KeepsVectors) -> None:
        """The same number of another tenant is another assertion."""
        await vectors.use_embedder(_ONE)
        (here,) = await keep(history, said(LANGUAGES, "Thai"))
        (there,) = await keep(history, said(LANGUAGES, "Thai", scope=PLANNER.within("acme")))
        assert here.recorded.seq == there.recorded.seq
        await vectors.put_vectors("acme", {there.recorded.seq: _vector(1, 0, 0, 0)})
        assert list((await vectors.vectors(None))[0]) == []
        assert list((await vectors.vectors("acme"))[0]) == [there.recorded.seq]

    async def test_another_embedder_is_refused(self, history: KeepsHistory, vectors: KeepsVectors) -> None:
        await vectors.use_embedder(_ONE)
        seq = await _embedded(history, "Thai")
        same_width = EmbedderIdentity(name="three", dimension=4)
        for other in (_TWO, same_width):
            with pytest.raises(EmbedderMismatchError):
                await vectors.use_embedder(other)
        await vectors.use_embedder(_ONE)
        assert await vectors.embedder() == _ONE
        assert list((await vectors.vectors(None))[0]) == [seq]

    async def test_replacing_the_embedder_drops_the_vectors_and_nothing_else(
        self, history: KeepsHistory, vectors: KeepsVectors
    ) -> None:
        await vectors.use_embedder(_ONE)
        seq = await _embedded(history, "Thai")
        await vectors.use_embedder(_TWO, replace=True)
        assert await vectors.embedder() == _TWO
        numbers, rows = await vectors.vectors(None)
        assert list(numbers) == []
        assert rows.shape == (0, 3)
        assert len(await history.entries(Place(USER, PLANNER))) == 1
        await vectors.put_vectors(None, {seq: _vector(0, 1, 0)})
        np.testing.assert_allclose((await vectors.vectors(None))[1], [[0, 1, 0]], atol=1e-6)
        await vectors.use_embedder(_TWO, replace=True)
        assert list((await vectors.vectors(None))[0]) == [], "the same one may be wanted to begin anew"

    async def test_vectors_are_there_when_it_is_opened_again(
        self, provider: AgentMemoryProvider, history: KeepsHistory, vectors: KeepsVectors, tmp_path: Path
    ) -> None:
        await vectors.use_embedder(_ONE)
        seq = await _embedded(history, "Thai", vector=_vector(1, 2, 3, 4))
        async with await self.reopened(provider, tmp_path) as again:
            assert isinstance(again, KeepsVectors)
            assert await again.embedder() == _ONE
            numbers, rows = await again.vectors(None)
            assert list(numbers) == [seq]
            np.testing.assert_allclose(rows, [_unit(_vector(1, 2, 3, 4))], atol=1e-6)


async def _embedded(
    history: KeepsHistory, value: str, *, tenant: str | None = None, vector: NDArray[np.float32] | None = None
) -> int:
    """Append a value with a vector; return its sequence number."""
    assertion = said(LANGUAGES, value, scope=PLANNER.within(tenant))
    (receipt,) = await history.append(
        [Append(assertion=assertion, vector=_vector(1, 0, 0, 0) if vector is None else vector)]
    )
    return receipt.recorded.seq
