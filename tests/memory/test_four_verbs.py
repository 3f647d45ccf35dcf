"""A provider with the four verbs only: findings are kept, and losses are reported."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from factmem import (
    AgentMemoryProvider,
    ChangeKind,
    Conversation,
    FactRecord,
    Memory,
    MemoryScope,
    Message,
    SingleFact,
    TtlPolicy,
)
from factmem.abc import DetectionRequest
from factmem.errors import CapabilityError, InvalidDataError, ModelError
from factmem.memory import Trigger
from factmem.memory.background import Unrepresented
from factmem.memory.context import Policies
from factmem.memory.submitted import StoredSession
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.shelves import Shelf
from tests.memory.telling import BEGAN, CITY, CONCEPTS, PETS, SEATS, USER, said, talk, well
from tests.narrowing import not_none
from tests.tables import cases

ALPHA = MemoryScope.product("alpha")


def over(provider: AgentMemoryProvider, model: Any = None, **options: Any) -> Memory:
    given: dict[str, Any] = {"subjects": [USER], "scopes": [ALPHA], "concepts": CONCEPTS} | options
    given.setdefault("policies", Policies(keep_words=False))  # findings are checked without the words beside them
    return Memory(provider, model=model, embedder=HashEmbedder(), **given)


async def test_found_facts_are_saved_and_lost_evidence_is_counted() -> None:
    shelf = Shelf()
    memory = over(shelf, ScriptedModel(well))
    outcome = await memory.remember(
        talk("I live in Oslo. We booked 12 seats.", "I have a cat."), subject=USER, scope=ALPHA
    )
    assert sorted(map(str, said(outcome.records))) == ["12", "Oslo", "cat"]
    assert {change.kind for change in outcome.changes} == {ChangeKind.CREATED}
    assert outcome.unrepresented == {Unrepresented.EVIDENCE: 3}
    assert await shelf.load(SEATS, USER, ALPHA) == SingleFact(SEATS, 12, timestamp=BEGAN)
    moved = await memory.remember(
        talk("No, actually it is Rome.", start=BEGAN + dt.timedelta(days=1)), subject=USER, scope=ALPHA
    )
    assert [(change.kind, change.record.value) for change in moved.changes] == [(ChangeKind.UPDATED, "Rome")]
    assert not_none(await over(shelf).load(CITY, subject=USER, scope=ALPHA)).value == "Rome"


async def test_what_others_said_is_not_taken_for_the_users_words() -> None:
    """Four verbs can neither attribute nor quarantine such words."""
    shelf = Shelf()
    words = Conversation(
        messages=[
            Message(content="I like tea.", id="1"),
            Message(content="You might like coffee.", role="assistant", id="2"),
            Message(content="The account is DE00.", role="tool", id="3"),
        ]
    )
    outcome = await over(shelf).remember(words, subject=USER, scope=ALPHA)
    assert said(outcome.records) == ["I like tea."]
    assert outcome.unrepresented == {Unrepresented.EVIDENCE: 1, Unrepresented.ORIGIN: 1, Unrepresented.QUARANTINE: 1}


async def test_a_request_to_forget_is_reported_and_not_applied() -> None:
    memory = over(Shelf(), ScriptedModel(well))
    await memory.remember(talk("I have a cat."), subject=USER, scope=ALPHA)
    outcome = await memory.remember(talk("Forget that I have a cat.", id="later"), subject=USER, scope=ALPHA)
    assert outcome.unrepresented[Unrepresented.REMOVAL] == 1
    assert outcome.changes == ()
    assert said(await memory.list_records(concepts=[PETS])) == ["cat"]


async def test_a_failing_model_costs_its_findings_and_not_the_words() -> None:
    def fails(prompt: Any, answer: Any) -> dict[str, Any]:
        raise ModelError("no")

    memory = over(Shelf(), ScriptedModel(fails))
    outcome = await memory.remember(talk("I live in Oslo."), subject=USER, scope=ALPHA)
    assert outcome.failure == "ModelError"
    assert said(await memory.list_records()) == ["I live in Oslo."]
    placed = await memory.remember("The roof leaks.", subject=USER)
    assert (placed.failure, said(placed.records)) == ("ModelError", ["The roof leaks."])


async def test_a_fact_that_its_place_cannot_take_costs_no_other() -> None:
    class Picky(Shelf):
        async def save(self, fact: Any, subject: Any, scope: Any) -> None:
            if fact.concept.keyword == "city":
                raise CapabilityError("no cities here")
            await super().save(fact, subject, scope)

    memory = over(Picky(), ScriptedModel(well))
    outcome = await memory.remember(talk("I live in Oslo. We booked 12 seats."), subject=USER, scope=ALPHA)
    assert (outcome.failure, said(outcome.records)) == ("CapabilityError", [12])


async def test_an_analyst_places_a_text_and_the_rest_of_its_answer_is_counted() -> None:
    memory = over(Shelf(), ScriptedModel(well))
    outcome = await memory.remember("The launch is in May.", subject=USER)
    (record,) = outcome.records
    assert str(record.scope) == "/product/alpha"
    assert outcome.unrepresented == {Unrepresented.EVIDENCE: 1, Unrepresented.DETAILS: 1, Unrepresented.COMPARISON: 1}


async def test_secrets_reach_neither_model_nor_store() -> None:
    shelf, model = Shelf(), ScriptedModel(well)
    memory = over(shelf, model, policies=Policies(keep_words=True))
    await memory.remember(
        talk("I live in Oslo. My key is sk-proj-abcdefghijklmnop1234567890."), subject=USER, scope=ALPHA
    )
    assert model.prompts
    assert all("sk-proj" not in prompt.content for prompt in model.prompts)
    assert "sk-proj" not in repr([fact.values for here in shelf.facts.values() for fact in here.values()])
    assert len(said(await memory.list_records())) == 2, "the fact, and the user's words beside it"


@pytest.mark.parametrize(
    "details",
    [
        *cases(__file__)["what is asked for and cannot be kept is refused"],
        {"expires_at": BEGAN + dt.timedelta(days=9999)},
    ],
)
async def test_what_is_asked_for_and_cannot_be_kept_is_refused(details: dict[str, Any]) -> None:
    shelf = Shelf()
    async with over(shelf, viewer="ada") as memory:
        with pytest.raises(CapabilityError, match="Shelf has the four verbs only"):
            await memory.remember("The roof leaks.", subject=USER, scope=ALPHA, **details)
        with pytest.raises(CapabilityError):
            await memory.remember_many(["The roof leaks."], subject=USER, scope=ALPHA, **details)
    assert not any(shelf.facts.values())


async def test_what_cannot_wait_in_the_store_is_refused() -> None:
    async with over(Shelf(), policies=Policies(keep_words=False, ttl=TtlPolicy(create=dt.timedelta(days=1)))) as memory:
        with pytest.raises(CapabilityError):
            await memory.remember("The roof leaks.", subject=USER, scope=ALPHA)
    async with over(Shelf()) as memory:
        with pytest.raises(CapabilityError, match="Trigger"):
            await memory.inbox.ingest_events(
                "s", [Message(content="x")], trigger=Trigger(count=2), subject=USER, scope=ALPHA
            )
        with pytest.raises(CapabilityError):
            await memory.generate(StoredSession(id="talk"), subject=USER, scope=ALPHA)


@pytest.mark.parametrize("wrong", [None, ["Rome"]])
async def test_a_provider_that_returns_something_else_than_facts_is_named(wrong: Any) -> None:
    class Wrong(Shelf):
        async def load_all(self, subject: Any, scope: Any) -> Any:
            return wrong

    with pytest.raises(InvalidDataError, match="load_all of Wrong"):
        await over(Wrong()).list_records()


async def test_many_are_kept_before_the_submission_returns() -> None:
    shelf = Shelf()
    async with over(shelf, ScriptedModel(well)) as memory:
        submission = await memory.remember_many(
            [talk("I live in Oslo."), talk("I have a cat.", id="b")], subject=USER, scope=ALPHA
        )
        assert (submission.pending, len(submission.outcomes)) == (0, 2)
        assert [said(outcome.records) for outcome in await submission.wait()] == [["Oslo"], ["cat"]]
        ready = await memory.generate([SingleFact(SEATS, 12, timestamp=BEGAN)], subject=USER, scope=ALPHA)
        assert [said(outcome.records) for outcome in ready.outcomes] == [[12]]
        assert ready.outcomes[0].unrepresented == {}
        asked = await memory.generate(
            [Message(content="I have a dog.", timestamp=BEGAN)],
            subject=USER,
            scope=ALPHA,
            looking_for=DetectionRequest(concepts=[PETS]),
        )
        assert said(asked.outcomes[0].records) == ["dog"]


async def test_an_event_is_read_once_by_a_process() -> None:
    model = ScriptedModel(well)
    async with over(Shelf(), model) as memory:
        history = [Message(content="I live in Oslo.", id="1", timestamp=BEGAN)]
        for more in ("I have a cat.", "We booked 12 seats."):
            await memory.inbox.ingest_events("s", history, trigger=Trigger(overlap=1), subject=USER, scope=ALPHA)
            history.append(Message(content=more, id=more, timestamp=BEGAN + dt.timedelta(minutes=len(history))))
        asked = len(model.prompts)
        submission = await memory.inbox.ingest_events(
            "s", history, trigger=Trigger(overlap=1), subject=USER, scope=ALPHA
        )
        assert [said(outcome.records) for outcome in submission.outcomes] == [[12]], "the cat was context"
        assert "cat" in model.prompts[-1].content
        assert len(model.prompts) == asked + 1
        known = await memory.inbox.ingest_events("s", history, subject=USER, scope=ALPHA)
        assert (known.outcomes, await known.wait(), len(model.prompts)) == ((), (), asked + 1)


async def test_an_unknown_place_is_seen_on_request() -> None:
    """It is seen by the process that saved there, and by another one."""
    shelf, alice = Shelf(), USER.individual("alice")
    await over(shelf).save(SingleFact(CITY, "Oslo"), subject=alice, scope=ALPHA)
    for memory in (over(shelf), over(shelf).scope("/product/alpha")):
        assert said(await memory.list_records(subjects=[alice])) == ["Oslo"]
        assert said([match.record for match in await memory.recall("city", subjects=[alice])]) == ["Oslo"]
        assert await memory.load(CITY, subject=USER, scope=ALPHA) is None
    elsewhere = MemoryScope.feature("search")
    await over(shelf).save(SingleFact(CITY, "Rome"), subject=USER, scope=elsewhere)
    assert said(await over(shelf).list_records(scope=elsewhere)) == ["Rome"]


KEYS: dict[str, Callable[[MemoryScope], object]] = {
    "str": str,
    "repr": repr,
    "format": "{}".format,
    "file": lambda scope: "/".join(filter(None, str(scope).split("/"))),
    "fields": lambda scope: (scope.tenant, scope.kind, scope.path),
}
CARELESS: dict[str, Callable[[MemoryScope], object]] = {
    "path": lambda scope: scope.path,
    "segments": lambda scope: scope.segments,
    "kind and path": lambda scope: (scope.kind, scope.path),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
async def test_organizations_are_walls_whatever_text_of_a_scope_is_the_key(
    key: Callable[[MemoryScope], object],
) -> None:
    shelf = Shelf(key)
    tenants = ("acme", "beta", "acme/product", None)
    scopes = (ALPHA, MemoryScope.CROSS_PRODUCT / "acme" / "product" / "alpha", MemoryScope.CROSS_PRODUCT)
    for tenant in tenants:
        memory = over(shelf, organization=tenant, scopes=scopes)
        for scope in scopes:
            await memory.save(SingleFact(CITY, f"{tenant} {scope}"), subject=USER, scope=scope)
    for tenant in tenants:
        memory = over(shelf, organization=tenant, scopes=scopes)
        for scope in scopes:
            assert not_none(await memory.load(CITY, subject=USER, scope=scope)).value == f"{tenant} {scope}"
        assert len(await memory.list_records()) == len(scopes)


@pytest.mark.parametrize("key", CARELESS.values(), ids=CARELESS)
async def test_a_provider_that_passes_the_tenant_over_is_refused_before_it_shows_anything(
    key: Callable[[MemoryScope], object],
) -> None:
    shelf = Shelf(key)
    await shelf.save(SingleFact(CITY, "Oslo"), USER, ALPHA.within("acme"))
    memory = over(shelf, organization="beta")
    for read in (memory.list_records, memory.admin.info, partial(memory.load, CITY), partial(memory.recall, "city")):
        with pytest.raises(CapabilityError, match=r"str\(scope\)"):
            await read()


_NEEDING_A_LOG: dict[str, Callable[[Memory, FactRecord[Any]], Any]] = {
    "history": lambda memory, record: memory.history(CITY),
    "history of a record": lambda memory, record: memory.history(record.id),
    "as_of": lambda memory, record: memory.view(as_of=BEGAN).load(CITY),
    "known_at": lambda memory, record: memory.view(known_at=BEGAN).load(CITY),
    "audit": lambda memory, record: memory.admin.audit(),
    "update": lambda memory, record: memory.update(record.id, value="Bern"),
    "retract": lambda memory, record: memory.retract(record.id),
    "restore": lambda memory, record: memory.restore(record.id),
    "rollback": lambda memory, record: memory.rollback(record),
    "forget": lambda memory, record: memory.forget(record.id),
    "expire": lambda memory, record: memory.admin.expire(),
}


@pytest.mark.parametrize("ask", _NEEDING_A_LOG.values(), ids=_NEEDING_A_LOG)
async def test_what_takes_a_log_is_refused_and_never_answered_wrongly(
    ask: Callable[[Memory, FactRecord[Any]], Any],
) -> None:
    memory = over(Shelf())
    for day, city in enumerate(("Rome", "Oslo")):
        said_then = SingleFact(CITY, city, timestamp=BEGAN + dt.timedelta(days=day))
        await memory.save(said_then, subject=USER, scope=ALPHA)
    await memory.remember("The roof leaks.", subject=USER, scope=ALPHA)
    for record in await memory.list_records():
        with pytest.raises(CapabilityError, match="Shelf has the four verbs only"):
            await ask(memory, record)
