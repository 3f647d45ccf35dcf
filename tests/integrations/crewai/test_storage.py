"""The storage for the records of CrewAI's memory: exact, walled, and shared with other hosts."""

# pyright: reportMissingImports=false

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

pytest.importorskip("crewai", reason="crewai is installed in an environment of its own: see .ci/run")
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord

from factmem import AgentMemory, AgentMemoryConfig, InMemoryProvider, Memory, SingleFact
from factmem.errors import EmbedderMismatchError, InvalidDataError, MissingUserError, RecordNotFoundError
from factmem.integrations.crewai import FactMemStorage
from factmem.integrations.crewai.storage import VectorSizeError
from factmem.testing import HashEmbedder
from tests.memory.telling import CITY

MOMENT = dt.datetime(2026, 5, 1, 12)


@pytest.fixture
def storage(memory: AgentMemory) -> FactMemStorage:
    return FactMemStorage(memory)


def record(content: str, *vector: float, **fields: Any) -> MemoryRecord:
    return MemoryRecord(content=content, **({"embedding": list(vector or (1.0, 0.0)), "created_at": MOMENT} | fields))


def contents(records: list[MemoryRecord]) -> list[str]:
    return sorted(found.content for found in records)


def found(storage: FactMemStorage, *query: float, **options: Any) -> list[str]:
    return [match.content for match, _ in storage.search(list(query or (1.0, 0.0)), **options)]


def known_elsewhere(memory: AgentMemory, scope: str = "/product/fair") -> None:
    """Save a typed fact that the agent may see, from another program."""

    async def save(store: Memory) -> None:
        await store.save(SingleFact(CITY, "Rome"), scope=scope)

    memory.for_run().held.use_blocking(save)


def test_it_is_what_crewai_asks_for(storage: FactMemStorage) -> None:
    assert isinstance(storage, StorageBackend)


def test_a_record_comes_back_as_it_was_saved(storage: FactMemStorage) -> None:
    given = record(
        "We chose Postgres.",
        0.5,
        0.5,
        scope="/project/alpha/decisions",
        categories=["decision", "データ"],
        metadata={"by": "ana", "nested": {"n": [1, None]}},
        importance=0.9,
        source="meeting",
        private=True,
    )
    storage.save([given])
    (listed,) = storage.list_records()
    for seen in (listed, storage.get_record(given.id)):
        assert seen is not None
        assert seen.model_dump(exclude={"last_accessed"}) == given.model_dump(exclude={"last_accessed"})
        assert seen.embedding == given.embedding
        assert seen.last_accessed.tzinfo is None
    assert storage.get_record("nobody") is None


def test_search_returns_the_closest_by_their_cosines(storage: FactMemStorage) -> None:
    storage.save([record(f"at {angle}", math.cos(angle), math.sin(angle)) for angle in (0.0, 0.5, 1.0, 3.0)])
    matches = storage.search([2.0, 0.0], limit=3)
    assert [match.content for match, _ in matches] == ["at 0.0", "at 0.5", "at 1.0"]
    assert [score for _, score in matches] == pytest.approx([1.0, math.cos(0.5), math.cos(1.0)], abs=1e-6)
    assert found(storage, min_score=0.6) == ["at 0.0", "at 0.5"]
    assert found(storage, limit=0) == []


def test_search_is_narrowed_before_it_is_cut(storage: FactMemStorage) -> None:
    """A record that does not pass the filters takes no place in the results, however similar it is."""
    near = [record(f"near {number}", 1.0, 0.0) for number in range(20)]
    storage.save([*near, record("far", 0.1, 1.0, categories=["a", "b"], metadata={"k": 1, "l": 2})])
    assert found(storage, categories=["b", "c"], limit=1) == ["far"]
    assert found(storage, metadata_filter={"k": 1}, limit=1) == ["far"]
    assert found(storage, metadata_filter={"k": 1, "l": 3}) == []


def test_vectors_of_another_size_are_another_embedders(storage: FactMemStorage) -> None:
    storage.save([record("We chose Postgres.", 1.0, 0.0)])
    for kind in (EmbedderMismatchError, EmbeddingDimensionMismatchError):
        with pytest.raises(kind):
            storage.search([1.0, 0.0, 0.0])


def test_vectors_of_another_size_are_not_kept(storage: FactMemStorage) -> None:
    with pytest.raises(VectorSizeError):
        storage.save([record("one", 1.0, 0.0), record("other", 1.0, 0.0, 0.0)])
    assert storage.count() == 0
    given = record("We chose Postgres.", 1.0, 0.0)
    storage.save([given, record("Without one.", embedding=None)])
    with pytest.raises(ValueError, match="dimension"):
        storage.save([record("fits", 0.0, 1.0), record("does not", 1.0)])
    with pytest.raises(VectorSizeError):
        storage.update(given.model_copy(update={"embedding": [1.0, 0.0, 0.0]}))
    with pytest.raises(InvalidDataError, match="NaN"):
        storage.save([record("nowhere", math.nan, 0.0)])
    assert contents(storage.list_records()) == ["We chose Postgres.", "Without one."]
    assert found(storage) == ["We chose Postgres.", "Without one."]


@pytest.mark.parametrize("path", ["/project/a", "project/a/", "//project//a"])
def test_a_scope_is_a_wall_on_every_path(storage: FactMemStorage, path: str) -> None:
    """Scopes match segment by segment: ``/project/a`` includes neither ``/project/ab`` nor ``/project``."""
    for scope in ("/project/a", "/project/a/b", "/project/ab", "/project", "/"):
        storage.save([record(f"in {scope}", scope=scope, categories=[scope])])
    inside = ["in /project/a", "in /project/a/b"]
    assert contents(storage.list_records(path)) == inside
    assert sorted(found(storage, scope_prefix=path)) == inside
    assert storage.count(path) == 2
    assert storage.list_categories(path) == {"/project/a": 1, "/project/a/b": 1}
    info = storage.get_scope_info(path)
    assert (info.path, info.record_count, info.child_scopes) == ("/project/a", 2, ["/project/a/b"])
    assert info.oldest_record == info.newest_record == MOMENT
    assert storage.list_scopes(path) == ["/project/a/b"]
    assert storage.delete(scope_prefix=path) == 2
    assert contents(storage.list_records()) == ["in /", "in /project", "in /project/ab"]
    assert storage.list_scopes("/") == ["/project"]
    assert storage.list_scopes("/project") == ["/project/ab"]


def test_deleting_the_root_deletes_everything_that_was_saved(storage: FactMemStorage, memory: AgentMemory) -> None:
    known_elsewhere(memory)
    with memory.run(user_id="alice"):
        storage.save([record("of alice")])
    storage.save([record(f"in {scope}", scope=scope) for scope in ("/", "/a", "/a/b")])
    assert storage.delete(scope_prefix="/", older_than=MOMENT) == 0
    assert storage.delete(scope_prefix="/") == 3
    assert contents(storage.list_records()) == ["city: Rome"]
    with memory.run(user_id="alice"):
        assert contents(storage.list_records()) == ["city: Rome", "of alice"]


def test_a_path_cannot_climb(storage: FactMemStorage, memory: AgentMemory) -> None:
    known_elsewhere(memory, "/agent/other")
    storage.save([record("Hidden?", scope="/../other")])
    assert contents(storage.list_records("/..")) == ["Hidden?"]
    assert "city: Rome" not in contents(storage.list_records())


def test_lists_are_newest_first_and_paged(storage: FactMemStorage) -> None:
    days = [MOMENT + dt.timedelta(days=number) for number in (2, 0, 1)]
    storage.save([record(f"on {day:%d}", created_at=day) for day in days])
    assert [seen.content for seen in storage.list_records()] == ["on 03", "on 02", "on 01"]
    assert [seen.content for seen in storage.list_records(limit=1, offset=1)] == ["on 02"]


def test_records_that_differ_in_their_ids_only_are_one(storage: FactMemStorage) -> None:
    first, second = record("Twice."), record("Twice.")
    storage.save([first])
    storage.save([second, record("Twice.", scope="/elsewhere")])
    assert storage.count() == 2
    assert [seen and seen.id for seen in map(storage.get_record, (first.id, second.id))] == [first.id, second.id]
    assert storage.delete(record_ids=[first.id]) == 1
    assert storage.get_record(first.id) is None
    assert storage.get_record(second.id) is not None
    assert storage.delete(record_ids=[second.id]) == 1
    assert contents(storage.list_records()) == ["Twice."]


def dumped(seen: MemoryRecord | None) -> dict[str, Any] | None:
    return None if seen is None else {**seen.model_dump(exclude={"last_accessed"}), "embedding": seen.embedding}


def test_records_of_the_same_words_are_kept_each_as_it_is(storage: FactMemStorage, memory: AgentMemory) -> None:
    """The details of one record do not replace those of another with the same words."""
    first = record("We chose Postgres.", 1.0, 0.0, metadata={"by": "ana"}, categories=["db"], source="a")
    later = MOMENT + dt.timedelta(days=1)
    second = record("We chose Postgres.", 0.0, 1.0, importance=0.9, created_at=later)
    composed, decomposed = record("caf\u00e9"), record("cafe\u0301")
    storage.save([first])
    storage.save([second, composed, decomposed])
    assert (storage.count(), storage.get_scope_info("/").record_count) == (4, 4)
    for given in (first, second, composed, decomposed):
        assert dumped(storage.get_record(given.id)) == dumped(given)
    assert storage.list_records(limit=1)[0].id == second.id
    assert storage.list_categories() == {"db": 1}
    assert [seen.id for seen, _ in storage.search([0.0, 1.0], metadata_filter={"by": "ana"})] == [first.id]
    assert storage.delete(older_than=later, categories=["db"]) == 1
    assert storage.get_record(first.id) is None
    assert dumped(storage.get_record(second.id)) == dumped(second)
    storage.save([first])
    changed = second.model_copy(update={"content": "We chose SQLite."})
    storage.update(changed)
    assert [dumped(storage.get_record(given.id)) for given in (first, second)] == [dumped(first), dumped(changed)]
    storage.update(changed.model_copy(update={"content": "We chose Postgres."}))
    assert [dumped(storage.get_record(given.id)) for given in (first, second)] == [dumped(first), dumped(second)]


def test_an_update_stands_in_place_of_the_record(storage: FactMemStorage) -> None:
    given = record("We chose Postgres.", categories=["db"], metadata={"a": 1}, importance=0.2)
    storage.save([given])
    storage.update(
        given.model_copy(update={"content": "We chose SQLite.", "metadata": {"b": 2}, "embedding": [0.0, 1.0]})
    )
    (seen,) = storage.list_records()
    assert (seen.id, seen.content, seen.metadata, seen.categories) == (given.id, "We chose SQLite.", {"b": 2}, ["db"])
    assert found(storage, 0.0, 1.0, min_score=0.9) == ["We chose SQLite."]
    storage.update(seen.model_copy(update={"scope": "/moved"}))
    assert [(moved.id, moved.scope) for moved in storage.list_records()] == [(given.id, "/moved")]
    with pytest.raises(RecordNotFoundError):
        storage.update(record("Nobody knows me."))


def test_what_is_private_stays_so_through_an_update(storage: FactMemStorage, memory: AgentMemory) -> None:
    """CrewAI's consolidation rewrites a record and drops its owner."""
    given = record("The offer is 5 million.", private=True, source="ana")
    storage.save([given])
    storage.update(MemoryRecord(id=given.id, content="The offer is 6 million.", embedding=[1.0, 0.0]))
    (seen,) = storage.list_records()
    assert (seen.content, seen.private, seen.source) == ("The offer is 6 million.", True, "ana")
    run = memory.for_run()
    assert run.held.use_blocking(lambda store: store.list_records()) == []


def test_users_see_their_own_only(storage: FactMemStorage, memory: AgentMemory) -> None:
    for user in ("alice", "bob"):
        with memory.run(user_id=user):
            storage.save([record(f"{user} in public"), record(f"{user} in private", private=True)])
    for user, other in (("alice", "bob"), ("bob", "alice")):
        with memory.run(user_id=user):
            assert contents(storage.list_records()) == [f"{user} in private", f"{user} in public"]
            assert not [text for text in found(storage) if other in text]
            assert storage.delete(metadata_filter={"none": 1}) == 0
    assert storage.list_records() == []


def test_a_run_without_a_user_is_refused_where_users_are_kept_apart() -> None:
    storage = FactMemStorage(AgentMemory(AgentMemoryConfig(store=InMemoryProvider(), embedder=HashEmbedder())))
    with pytest.raises(MissingUserError):
        storage.save([record("The hall is booked.")])
    with pytest.raises(MissingUserError):
        storage.list_records()


def test_deleting_combines_what_is_given_and_can_be_undone(storage: FactMemStorage, memory: AgentMemory) -> None:
    old = record("old", created_at=MOMENT - dt.timedelta(days=9), categories=["x"], scope="/a")
    storage.save([old, record("new", categories=["x"], scope="/a"), record("other", scope="/b")])
    with pytest.raises(InvalidDataError, match="reset"):
        storage.delete()
    assert storage.delete(record_ids=[old.id], scope_prefix="/b") == 0
    assert storage.delete(scope_prefix="/a", categories=["x"], older_than=MOMENT) == 1
    assert contents(storage.list_records()) == ["new", "other"]
    gone = memory.for_run().held.use_blocking(lambda store: store.history("statement"))
    (revision,) = [seen for seen in gone if seen.value == "old"]
    memory.for_run().held.use_blocking(lambda store: store.restore(revision.id))
    assert storage.get_record(old.id) is not None


def test_facts_of_other_hosts_are_found_and_left_alone(storage: FactMemStorage, memory: AgentMemory) -> None:
    """A typed fact of the agent's product is a record under its own path, embedded on request."""
    known_elsewhere(memory)
    storage.save([record("We chose Postgres.", *storage.embed(["We chose Postgres."])[0])])
    assert contents(storage.list_records("/product/fair")) == ["city: Rome"]
    (first, *_) = found(storage, *storage.embed(["city: Rome"])[0])
    assert first == "city: Rome"
    (fact,) = storage.list_records("/product/fair")
    assert storage.delete(record_ids=[fact.id]) == 0
    storage.update(fact.model_copy(update={"content": "The user lives in Rome, near the river."}))
    assert contents(storage.list_records()) == [
        "The user lives in Rome, near the river.",
        "We chose Postgres.",
        "city: Rome",
    ]
    storage.reset()
    assert contents(storage.list_records()) == ["city: Rome"]


def test_a_reset_leaves_no_words_behind(storage: FactMemStorage, memory: AgentMemory) -> None:
    storage.save([record("gone", scope="/a"), record("here", scope="/ab"), record("secret", scope="/a", private=True)])
    storage.reset("/a")
    assert contents(storage.list_records()) == ["here"]
    revisions = memory.for_run().held.use_blocking(lambda store: store.view(viewer="crewai").history("statement"))
    assert [seen.value for seen in revisions] == ["here"]


def test_secrets_are_redacted_and_nothing_is_refused(storage: FactMemStorage) -> None:
    storage.save([record("My key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD.")])
    assert "abcdefghij" not in storage.list_records()[0].content
    for wrong in (record(" "), record("x", metadata={"when": object()})):
        with pytest.raises(InvalidDataError):
            storage.save([wrong])


async def test_in_an_event_loop_the_blocking_calls_are_refused(storage: FactMemStorage) -> None:
    await storage.asave([record("We chose Postgres.", scope="/a")])
    assert [match.content for match, _ in await storage.asearch([1.0, 0.0], scope_prefix="/a")] == [
        "We chose Postgres."
    ]
    assert await storage.adelete(scope_prefix="/a") == 1
