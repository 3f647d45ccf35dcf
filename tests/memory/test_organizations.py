"""Two organizations on one store: submissions of one are invisible to the other, and unaffected by it."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import pytest

from factmem import AgentMemoryProvider, Concept, Memory, Message, SingleFact
from factmem.abc import Prompt
from factmem.errors import ModelRefusedError, RecordNotFoundError
from factmem.memory.remembering import StoredSession
from factmem.records import AssertionState, FactDetails
from factmem.testing import ScriptedModel
from tests.memory.telling import BEGAN, SOON, USER, log_of, opened, said, talk, well
from tests.memory.test_event_streams import LATER

pytestmark = pytest.mark.slow

SECRET = "lynx"
"""A word in every text of acme, and in no other."""


@attrs.define
class Listening:
    """A model that rejects some questions, and records the others."""

    refuses: str = "nothing"
    shown: list[str] = attrs.field(factory=list)

    def __call__(self, prompt: Prompt, answer: Any) -> dict[str, Any] | Exception:
        self.shown.append(prompt.content)
        return ModelRefusedError("no") if self.refuses in prompt.content else well(prompt, answer)


def of(provider: AgentMemoryProvider, organization: str | None, script: Listening) -> Memory:
    return opened(provider, ScriptedModel(script), organization=organization, background=SOON)


async def fill(memory: Memory) -> None:
    """Save something for acme in every way, public and private."""
    for private in (False, True):
        about: dict[str, Any] = {"subject": USER, "private": private}
        concept = Concept.single(f"lynx_{private}".lower(), "Where the lynx lives")
        details = FactDetails(categories=("lynx",))
        await memory.save(SingleFact(concept, "in the lynx wood"), scope="/product/lynx", details=details, **about)
        await memory.remember(f"The lynx is called Tom{private}.", scope="/product/lynx", **about)
        await memory.remember(f"The lynx is shy{private}.", **about)
        await memory.remember(talk("I have a lynx.", id=f"talk{private}"), **about)
        await (await memory.generate(talk("I have a lynxcub.", id="session"), **about)).wait()
        await (await memory.remember_many([f"The lynx is old{private}."], **about)).wait()
        await memory.inbox.ingest_events("chat", talk("I have a lynxess.", id="chat").messages, trigger=LATER, **about)
        await memory.remember(Message(content="The lynx is planted.", role="tool", id="t", timestamp=BEGAN), **about)
        await memory.remember(talk("The lynx is unreadable.", id="dead"), **about)


async def shown_by(memory: Memory) -> str:
    """Return everything that a memory shows."""
    exported = io.StringIO()
    await memory.admin.export(exported)
    found: list[object] = [
        await memory.list_records(),
        await memory.list_records(limit=100),
        [match.record for match in await memory.recall("where does the lynx live")],
        [str(scope) for scope in (await memory.admin.info()).scopes],
        list((await memory.admin.info()).categories),
        await memory.admin.info(),
        await memory.admin.tree(),
        await memory.history("lynx_false"),
        await memory.history("statement"),
        await memory.inbox.quarantine.list(),
        await memory.inbox.quarantine.list(rejected=True),
        await memory.inbox.dead_letters.list(),
        (await memory.forget(subject=USER, dry_run=True)).records,
        await memory.admin.expire(dry_run=True),
        exported.getvalue(),
    ]
    return repr(found) + repr([record.value for record in await memory.list_records()])


@pytest.mark.parametrize(("other", "viewer"), [("globex", "alice"), (None, "bob")])
async def test_nothing_of_an_organization_is_shown_to_another(
    provider: AgentMemoryProvider, other: str | None, viewer: str
) -> None:
    """Neither callers nor the model see it, although both use the same names, sessions and streams."""
    async with of(provider, "acme", Listening(refuses="unreadable")) as acme:
        await fill(acme)
        assert SECRET in await shown_by(acme)
    before = await log_of(provider, "acme")
    listening = Listening()
    async with of(provider, other, listening) as strangers:
        memory = strangers.view(viewer=viewer)
        await (await memory.inbox.resume()).wait()
        await memory.inbox.flush()
        assert await memory.inbox.dead_letters.retry() == ()
        assert SECRET not in await shown_by(memory)
        await memory.remember("The dog is called Rex.", subject=USER)
        await memory.remember(talk("I have a dog.", "Forget that I have a dog."), subject=USER)
        await (await memory.generate(talk("I have a cow.", id="session"), subject=USER)).wait()
        await (await memory.inbox.ingest_events("chat", talk("I have a hen.", id="chat").messages, subject=USER)).wait()
        assert SECRET not in await shown_by(memory)
        assert "hen" in said(await memory.list_records())
        with pytest.raises(RecordNotFoundError):
            await memory.generate(StoredSession(id="talkFalse"), subject=USER)
    assert [any(word in text for text in listening.shown) for word in ("Rex", "cow", "hen")] == [True] * 3
    assert [text for text in listening.shown if SECRET in text] == []
    assert await log_of(provider, "acme") == before


async def test_ids_of_another_organization_name_nothing(provider: AgentMemoryProvider) -> None:
    async with of(provider, "acme", Listening(refuses="unreadable")) as acme:
        await fill(acme)
        records = await acme.list_records()
        planted = await acme.inbox.quarantine.list()
        letters = await acme.inbox.dead_letters.list()
        assert records
        assert planted
        assert letters
    before = await log_of(provider, "acme")
    async with of(provider, "globex", Listening()) as memory:
        calls: list[Callable[[], Awaitable[object]]] = []
        for name in (record.id for record in records):
            calls += [partial(call, name) for call in (memory.get, memory.retract, memory.restore)]
            calls.append(partial(memory.update, name, importance=0.9))
        calls += [partial(memory.rollback, record) for record in records]
        calls += [partial(memory.rollback, record.revision) for record in records]
        for name in (entry.id for entry in planted):
            calls += [partial(call, name) for call in (memory.inbox.quarantine.accept, memory.inbox.quarantine.reject)]
        for name in (letter.id for letter in letters):
            calls += [
                partial(call, name) for call in (memory.inbox.dead_letters.retry, memory.inbox.dead_letters.dismiss)
            ]
        for call in calls:
            with pytest.raises(RecordNotFoundError):
                await call()
        assert (await memory.forget(*(record.id for record in records))).erased == 0
        assert len(await memory.forget(record_ids=[record.id for record in records])) == 0
    assert await log_of(provider, "acme") == before
    _, states = await log_of(provider, "acme")
    assert states[AssertionState.PENDING] == states[AssertionState.FAILED] == 2
