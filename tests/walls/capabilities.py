"""The paths of providers: the four verbs and what a provider can do beyond them.

The four verbs answer for one place, with what is public and current. The capabilities know no viewer, for they are
what the engine is made of: their walls are the tenant's and, of `entries`, the place's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from anyio import to_thread

from factmem import Concept
from factmem.abc import Access
from factmem.records import Place
from tests.walls.ways import EMBEDDER, Asked, Door, Neither, Reads, Shows, Way, Writes, each
from tests.walls.worlds import MANY, NOW, SHARED, Plant

__all__ = ["CAPABILITIES", "OWN"]


def _place(asked: Asked) -> Place:
    return Place(asked.subject, asked.scope.within(asked.seat.tenant))


def at(plant: Plant, asked: Asked) -> bool:
    """Whether something lies at the very place that is asked about, whoever's it is."""
    here, there = _place(asked), Place(plant.subject, plant.scope)
    return (here.scope.tenant, here.scope.segments, here.subject.key) == (
        there.scope.tenant,
        there.scope.segments,
        there.subject.key,
    )


def _public(plant: Plant, asked: Asked) -> bool:
    return at(plant, asked) and plant.owner is None


async def _verbs(asked: Asked) -> object:
    provider, place = asked.grown.provider, _place(asked)
    wanted = [SHARED, MANY, *(Concept.single(plant.concept.keyword, "") for plant in asked.some)]
    return await each(wanted, lambda concept: provider.load(concept, place.subject, place.scope))


def _here(name: str, *given: Any) -> Any:
    async def call(asked: Asked) -> object:
        place = _place(asked)
        return await getattr(asked.grown.provider, name)(*given, place.subject, place.scope)

    return call


async def _described(asked: Asked) -> object:
    provider, place = asked.grown.provider, _place(asked)
    texts = ["about", *(plant.token for plant in asked.some)]
    return [await provider.load_by_description(text, place.subject, place.scope) for text in texts]


async def _vectors(asked: Asked) -> object:
    await asked.memory.recall("green door")
    numbers, _ = await asked.grown.provider.vectors(asked.seat.tenant, 0)
    said = asked.grown.numbered(asked.seat.tenant)
    return [said[number] for number in numbers]


async def _scanned(asked: Asked) -> object:
    """Return the tokens of all revisions that the vector calls return numbers, products or rows for."""
    provider, tenant = asked.grown.provider, asked.seat.tenant
    await asked.memory.recall("green door")
    (vector,) = await EMBEDDER.embed([asked.query])
    numbers = await to_thread.run_sync(provider.vector_numbers, tenant)
    scanned, _ = await to_thread.run_sync(provider.products, tenant, vector)
    every = np.array(sorted(set(asked.grown.revisions.values())))
    rows = await to_thread.run_sync(provider.vectors_of, tenant, every, len(vector))
    said = asked.grown.numbered(tenant)
    return [said[number] for found in (numbers, scanned, every[rows.any(axis=1)]) for number in found.tolist()]


async def _changes(asked: Asked) -> object:
    provider, tenant = asked.grown.provider, asked.seat.tenant
    numbers = sorted(asked.grown.numbered(tenant)) or [0]
    middle = numbers[len(numbers) // 2]
    return [await provider.changes(tenant), await provider.changes(tenant, middle), await provider.changes("nobody")]


async def _parts(asked: Asked) -> object:
    provider, tenant = asked.grown.provider, asked.seat.tenant
    parts = [await provider.log_part(tenant), await provider.log_part(tenant, 3, limit=5)]
    parts.append(await provider.log_part("nobody"))
    return [part.entries for part in parts]


async def _accessed(asked: Asked) -> object:
    """Return the tokens of the records whose accesses are told."""
    provider, records = asked.grown.provider, asked.grown.records
    for tenant in {plant.scope.tenant for plant in asked.grown.world.plants}:
        await provider.add_accesses(tenant, dict.fromkeys(records.values(), Access(count=1, last=NOW)))
    found = await provider.accesses(asked.seat.tenant, list(records.values()))
    return [token for token, id in records.items() if id in found]


async def _outlined(asked: Asked) -> object:
    """Return the tokens of the revisions that the outlines of the log contain."""
    provider, tenant = asked.grown.provider, asked.seat.tenant
    await asked.memory.recall("green door")
    logs = [await to_thread.run_sync(provider.outlined, tenant, since) for since in (0, 3)]
    said = asked.grown.numbered(tenant)
    return [[said[number] for number in (*log.seqs, *log.missing)] for log in logs]


async def _recorded(asked: Asked) -> object:
    numbers = [*asked.grown.revisions.values(), 10**9]
    return await to_thread.run_sync(asked.grown.provider.recorded, asked.seat.tenant, numbers)


def _of_tenant(plant: Plant, asked: Asked) -> bool:
    return plant.scope.tenant == asked.seat.tenant


async def _erased(asked: Asked) -> object:
    """Erase by the ids of other tenants, and assert that nothing is erased."""
    elsewhere = [plant for plant in asked.some if not _of_tenant(plant, asked)]
    ids = [asked.grown.records[plant.token] for plant in elsewhere]
    entries = [asked.grown.entries[plant.token] for plant in elsewhere]
    receipt = await asked.grown.provider.erase(ids, tenant=asked.seat.tenant, assertion_ids=entries)
    assert receipt.erased == 0
    return receipt


CAPABILITIES: Final[Mapping[str, Door]] = {
    "load": Reads([Way(_verbs, only=_public, engine=True)]),
    "load_all": Reads([Way(_here("load_all"), only=_public, whole=True, engine=True)]),
    "load_by_description": Reads([Way(_described, only=_public, engine=True)]),
    "entries": Reads(
        [Way(lambda asked: asked.grown.provider.entries(_place(asked)), Shows.KEPT, only=at, whole=True, engine=True)]
    ),
    "changes": Reads([Way(_changes, Shows.KEPT, only=_of_tenant, engine=True, whole=True)]),
    "log_part": Reads([Way(_parts, Shows.KEPT, only=_of_tenant, engine=True, whole=True)]),
    "tenants": Neither("names the tenants, for whoever keeps the whole store"),
    "copied": Neither("is a number, for whoever moves the whole store"),
    "begin_copy": Neither("hands nothing back"),
    "put_log_part": Neither("hands nothing back; a part of another tenant is refused, which the kit tests"),
    "end_copy": Neither("hands nothing back"),
    "vectors": Reads([Way(_vectors, Shows.KEPT, only=_of_tenant, engine=True)]),
    "accesses": Reads([Way(_accessed, Shows.KEPT, only=_of_tenant, engine=True)]),
    "add_accesses": Neither("hands nothing back"),
    "erase": Writes([Way(_erased, Shows.NOTHING)]),
    "save": Neither(
        "hands nothing back; that it conflicts with nothing private is tested beside what it does not change"
    ),
    "append": Neither("hands back what was handed in; who may hand in what is the facade's to say"),
    "version": Neither("is the number of the store's newest entry, whoever wrote it: the engine's to ask for"),
    "embedder": Neither("is one for the whole store"),
    "use_embedder": Neither("is one for the whole store"),
    "put_vectors": Neither("hands nothing back"),
    "files": Neither("names the store's files, whosever they are, so that they can be searched for what was erased"),
    "check": Neither("names files and tenants, and counts what waits in each, for whoever keeps the whole store"),
    "aclose": Neither("ends it"),
}
"""Of the abstract provider and of every protocol among the capabilities."""

_KEYS: Final[Mapping[str, Door]] = {
    "rotate": Neither("changes the key, and hands nothing back"),
    "verify": Neither("tells how much of the store is sound, whosever it is"),
}
_SCANS: Final = Reads([Way(_scanned, Shows.KEPT, only=_of_tenant, engine=True)])
_WORDS: Final[Mapping[str, Door]] = {
    "outlined": Reads([Way(_outlined, Shows.KEPT, only=_of_tenant, engine=True)]),
    "recorded": Reads([Way(_recorded, Shows.KEPT, only=_of_tenant, engine=True)]),
    "newest": Neither("is the number of the store's newest entry, whoever wrote it: the engine's to ask for"),
    "vector_numbers": _SCANS,
    "products": _SCANS,
    "vectors_of": _SCANS,
    "use_outlines": Neither("is one for the whole store"),
    "put_outlines": Neither("hands nothing back"),
}

OWN: Final[Mapping[str, Mapping[str, Door]]] = {
    "EncryptedMemoryProvider": _KEYS,
    "EncryptedSqliteMemoryProvider": {**_WORDS, **_KEYS},
    "SqliteVecMemoryProvider": _WORDS,
}
"""What single providers have besides."""
