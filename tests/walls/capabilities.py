"""The paths of providers: the four verbs and the capabilities.

The four verbs answer for one place, with its public and current facts. The capabilities, on which the engine is built,
have no viewer: their walls are the tenant and, for `entries`, the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from anyio import to_thread

from factmem import Concept
from factmem.abc.capabilities import Access
from factmem.records import Place
from tests.walls.ways import EMBEDDER, Asked, Door, Neither, Reads, Shows, Way, Writes, each
from tests.walls.worlds import MANY, NOW, SHARED, Plant


def _place(asked: Asked) -> Place:
    return Place(asked.subject, asked.scope.within(asked.caller.tenant))


def at(plant: Plant, asked: Asked) -> bool:
    """Return whether a plant is at the requested place, for any owner."""
    here, there = _place(asked), Place(plant.subject, plant.scope)
    return (here.scope.tenant, here.scope.segments, here.subject.key) == (
        there.scope.tenant,
        there.scope.segments,
        there.subject.key,
    )


def _public(plant: Plant, asked: Asked) -> bool:
    return at(plant, asked) and plant.owner is None


async def _verbs(asked: Asked) -> object:
    provider, place = asked.filled.provider, _place(asked)
    wanted = [SHARED, MANY, *(Concept.single(plant.concept.keyword, "") for plant in asked.some)]
    return await each(wanted, lambda concept: provider.load(concept, place.subject, place.scope))


def _here(name: str, *given: Any) -> Any:
    async def call(asked: Asked) -> object:
        place = _place(asked)
        return await getattr(asked.filled.provider, name)(*given, place.subject, place.scope)

    return call


async def _described(asked: Asked) -> object:
    provider, place = asked.filled.provider, _place(asked)
    texts = ["about", *(plant.token for plant in asked.some)]
    return [await provider.load_by_description(text, place.subject, place.scope) for text in texts]


async def _vectors(asked: Asked) -> object:
    await asked.memory.recall("green door")
    numbers, _ = await asked.filled.provider.vectors(asked.caller.tenant, 0)
    said = asked.filled.numbered(asked.caller.tenant)
    return [said[number] for number in numbers]


async def _vectors_since(asked: Asked) -> object:
    await asked.memory.recall("green door")
    numbers, _ = await to_thread.run_sync(asked.filled.provider.vectors_since, asked.caller.tenant, 0)
    said = asked.filled.numbered(asked.caller.tenant)
    return [said[number] for number in numbers]


async def _scanned(asked: Asked) -> object:
    """Return the tokens of all revisions that the vector calls return numbers, products or rows for."""
    provider, tenant = asked.filled.provider, asked.caller.tenant
    await asked.memory.recall("green door")
    (vector,) = await EMBEDDER.embed([asked.query])
    numbers = await to_thread.run_sync(provider.vector_numbers, tenant)
    scanned, _ = await to_thread.run_sync(provider.products, tenant, vector)
    every = np.array(sorted(set(asked.filled.revisions.values())))
    rows = await to_thread.run_sync(provider.vectors_of, tenant, every, len(vector))
    said = asked.filled.numbered(tenant)
    return [said[number] for found in (numbers, scanned, every[rows.any(axis=1)]) for number in found.tolist()]


async def _changes(asked: Asked) -> object:
    provider, tenant = asked.filled.provider, asked.caller.tenant
    numbers = sorted(asked.filled.numbered(tenant)) or [0]
    middle = numbers[len(numbers) // 2]
    return [await provider.changes(tenant), await provider.changes(tenant, middle), await provider.changes("nobody")]


async def _parts(asked: Asked) -> object:
    provider, tenant = asked.filled.provider, asked.caller.tenant
    parts = [await provider.log_part(tenant), await provider.log_part(tenant, 3, limit=5)]
    parts.append(await provider.log_part("nobody"))
    return [part.entries for part in parts]


async def _accessed(asked: Asked) -> object:
    """Return the tokens of the records whose access counts are returned."""
    provider, records = asked.filled.provider, asked.filled.records
    for tenant in {plant.scope.tenant for plant in asked.filled.world.plants}:
        await provider.add_accesses(tenant, dict.fromkeys(records.values(), Access(count=1, last=NOW)))
    found = await provider.accesses(asked.caller.tenant, list(records.values()))
    return [token for token, id in records.items() if id in found]


async def _outlined(asked: Asked) -> object:
    """Return the tokens of the revisions that the outlines of the log contain."""
    provider, tenant = asked.filled.provider, asked.caller.tenant
    await asked.memory.recall("green door")
    logs = [await to_thread.run_sync(provider.outlined, tenant, since) for since in (0, 3)]
    said = asked.filled.numbered(tenant)
    return [[said[number] for number in (*log.seqs, *log.missing)] for log in logs]


async def _recorded(asked: Asked) -> object:
    numbers = [*asked.filled.revisions.values(), 10**9]
    return await to_thread.run_sync(asked.filled.provider.recorded, asked.caller.tenant, numbers)


def _of_tenant(plant: Plant, asked: Asked) -> bool:
    return plant.scope.tenant == asked.caller.tenant


async def _erased(asked: Asked) -> object:
    """Erase by the ids of other tenants, and assert that nothing is erased."""
    elsewhere = [plant for plant in asked.some if not _of_tenant(plant, asked)]
    ids = [asked.filled.records[plant.token] for plant in elsewhere]
    entries = [asked.filled.entries[plant.token] for plant in elsewhere]
    receipt = await asked.filled.provider.erase(ids, tenant=asked.caller.tenant, assertion_ids=entries)
    assert receipt.erased == 0
    return receipt


CAPABILITIES: Final[Mapping[str, Door]] = {
    "load": Reads([Way(_verbs, only=_public, engine=True)]),
    "load_all": Reads([Way(_here("load_all"), only=_public, whole=True, engine=True)]),
    "load_by_description": Reads([Way(_described, only=_public, engine=True)]),
    "entries": Reads(
        [Way(lambda asked: asked.filled.provider.entries(_place(asked)), Shows.KEPT, only=at, whole=True, engine=True)]
    ),
    "changes": Reads([Way(_changes, Shows.KEPT, only=_of_tenant, engine=True, whole=True)]),
    "log_part": Reads([Way(_parts, Shows.KEPT, only=_of_tenant, engine=True, whole=True)]),
    "tenants": Neither("names the tenants, for the operator of the store"),
    "copied": Neither("is a number, for whoever moves the whole store"),
    "begin_copy": Neither("returns nothing"),
    "put_log_part": Neither("hands nothing back; a part of another tenant is refused, which the kit tests"),
    "end_copy": Neither("returns nothing"),
    "vectors": Reads([Way(_vectors, Shows.KEPT, only=_of_tenant, engine=True)]),
    "accesses": Reads([Way(_accessed, Shows.KEPT, only=_of_tenant, engine=True)]),
    "add_accesses": Neither("returns nothing"),
    "erase": Writes([Way(_erased, Shows.NOTHING)]),
    "save": Neither(
        "hands nothing back; that it conflicts with nothing private is tested beside what it does not change"
    ),
    "append": Neither("returns its arguments; the facade checks who may append what"),
    "version": Neither("is the number of the store's newest entry, which only the engine reads"),
    "embedder": Neither("is one for the whole store"),
    "use_embedder": Neither("is one for the whole store"),
    "put_vectors": Neither("returns nothing"),
    "files": Neither("names the files of the whole store, to be searched for erased text"),
    "check": Neither("names files and tenants, and counts pending entries, for the operator of the store"),
    "location": Neither("names the files of the whole store, for whoever backs it up"),
    "at": Neither("opens another store, for the operator of both"),
    "copy_to": Neither("copies the files of the whole store, for whoever backs it up"),
    "check_unused": Neither("returns nothing"),
    "format_versions": Neither("are of the whole store"),
    "upgrade": Neither("returns nothing"),
    "aclose": Neither("closes it"),
}
"""Paths of the abstract provider and of every protocol among the capabilities."""

_KEYS: Final[Mapping[str, Door]] = {
    "rotate": Neither("changes the key, and returns nothing"),
    "verify": Neither("reports on the whole store"),
}
_SCANS: Final = Reads([Way(_scanned, Shows.KEPT, only=_of_tenant, engine=True)])
_WORDS: Final[Mapping[str, Door]] = {
    "outlined": Reads([Way(_outlined, Shows.KEPT, only=_of_tenant, engine=True)]),
    "recorded": Reads([Way(_recorded, Shows.KEPT, only=_of_tenant, engine=True)]),
    "vectors_since": Reads([Way(_vectors_since, Shows.KEPT, only=_of_tenant, engine=True)]),
    "far": Neither("is the same for every store"),
    "newest": Neither("is the number of the store's newest entry, which only the engine reads"),
    "use_outlines": Neither("is one for the whole store"),
    "put_outlines": Neither("returns nothing"),
}
_SQLITE: Final[Mapping[str, Door]] = {**_WORDS, **dict.fromkeys(("vector_numbers", "products", "vectors_of"), _SCANS)}

OWN: Final[Mapping[str, Mapping[str, Door]]] = {
    "EncryptedMemoryProvider": _KEYS,
    "EncryptedSqliteMemoryProvider": {**_SQLITE, **_KEYS},
    "PostgresMemoryProvider": {**_WORDS, "from_address": Neither("opens a store, for its operator")},
    "SqliteVecMemoryProvider": _SQLITE,
    "DatabaseProvider": _WORDS,
}
"""Further paths of single providers."""
