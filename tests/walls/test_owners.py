"""Private facts of one user reach no other user, whether they are read, observed or imported."""

from __future__ import annotations

import datetime as dt
import io

import attrs
import pytest

from factmem import STATEMENT, Background, Concept, Evidence, InMemoryProvider, Memory, MemoryScope, SingleFact
from factmem.abc.capabilities import Append, Statement, StateRequest
from factmem.details import FactDetails
from factmem.errors import InvalidDataError, ModelUnavailableError, OutOfViewError, ReadOnlyError
from factmem.memory.background import MemoryEvent
from factmem.memory.journal import STREAM, Job, JobKind, job_json
from factmem.records import AssertionState, Place, assertions_of
from factmem.testing import ScriptedModel
from tests.memory.telling import BEGAN, USER, opened, said, talk, until, well
from tests.narrowing import not_none
from tests.walls.leaves import text_of

CROSS_PRODUCT = MemoryScope.CROSS_PRODUCT
SECRET = talk("I have a lynx.", id="secret")
PUBLIC = talk("I have a cat.", id="public")
AWAY = ScriptedModel(lambda prompt, answer: ModelUnavailableError("nobody answers"))
PATIENT = Background(attempts=2, backoff=dt.timedelta(hours=1))


async def left_unread() -> InMemoryProvider:
    """A store with pending words of alice, public and private."""
    provider = InMemoryProvider()
    async with opened(provider, AWAY, background=PATIENT) as memory:
        await memory.remember_many([SECRET], subject=USER, private=True)
        await memory.remember_many([PUBLIC], subject=USER)
        await until(lambda: len(AWAY.prompts) >= 2)
    AWAY.prompts.clear()
    return provider


async def test_resuming_all_pending_words_shows_no_private_ones_of_others() -> None:
    """Resuming shows bob neither alice's words nor their names nor their number."""
    provider = await left_unread()
    async with opened(provider, ScriptedModel(well), viewer="bob") as memory:
        submission = await memory.inbox.resume()
        outcomes = await submission.wait()
        assert (len(submission.ids), len(outcomes), submission.pending) == (1, 1, 0)
        assert "cat" in text_of(outcomes)
        assert "lynx" not in text_of((outcomes, submission))
        assert said(await memory.view(viewer="alice").list_records()) == ["cat", "lynx"], "all owners' words wait"


async def test_an_observer_is_not_notified_of_private_words_of_others() -> None:
    """Neither the facts found nor the events of reading and failing are sent."""
    for model in (ScriptedModel(well), ScriptedModel(lambda prompt, answer: ModelUnavailableError("no"))):
        provider, shown = await left_unread(), list[MemoryEvent]()
        quick = Background(attempts=1)
        async with opened(provider, model, viewer="bob", on_event=shown.append, background=quick) as memory:
            await (await memory.inbox.resume()).wait()
            await (await memory.view(viewer="alice").remember_many([talk("I have a hen.")], private=True)).wait()
        assert len(shown) == 1
        assert not [word for word in ("lynx", "hen") if word in text_of(shown)]


def _from_talk(owner: str | None) -> FactDetails:
    evidence = Evidence(quote=f"What {owner} says.", conversation_id="talk", message_id="m", start=0)
    return FactDetails(owner=owner, evidence=(evidence,))


@pytest.mark.parametrize("state", [AssertionState.PENDING, AssertionState.FAILED])
async def test_words_of_two_owners_are_never_read_together(state: AssertionState) -> None:
    """This holds even if they claim the same job, whose name may be guessed, as an import can."""
    provider = InMemoryProvider()
    job = Job(id=f"{STREAM}guessed", kind=JobKind.DETECT)
    statements: list[Statement] = []
    for owner, scope in (("bob", "/product/a"), ("alice", "/product/a"), (None, "/product/ab")):
        fact = STATEMENT.fact([f"What {owner} says."], timestamp=BEGAN)
        (words,) = assertions_of(fact, Place(USER, MemoryScope.parse(scope)), _from_talk(owner))
        words = attrs.evolve(words, job=job_json(job), state=AssertionState.PENDING)
        statements.append(Append(assertion=words))
    receipts = await provider.append(statements)
    await provider.append([StateRequest.of(item.recorded, state=state) for item in receipts])
    async with opened(provider, viewer="bob") as memory:
        letters = await memory.inbox.dead_letters.list()
        assert "alice" not in text_of(letters)
        assert [len(letter.records) for letter in letters] == ([1, 1] if state is AssertionState.FAILED else [])
    shown = ScriptedModel(well)
    async with opened(provider, shown, viewer="bob") as memory:
        await memory.inbox.flush()
        await memory.inbox.dead_letters.retry()
    assert [prompt for prompt in shown.prompts if "bob" in prompt.content and "alice" in prompt.content] == []


async def test_words_that_show_nothing_of_a_conversation_are_passed_over() -> None:
    """Imported words may be marked as pending without evidence: they are not read, and nothing fails."""
    provider = InMemoryProvider()
    for id in (f"{STREAM}guessed", "guessed"):
        (words,) = assertions_of(STATEMENT.fact([f"Of {id}."], timestamp=BEGAN), Place(USER, CROSS_PRODUCT))
        waiting = job_json(Job(id=id, kind=JobKind.DETECT))
        await provider.append([Append(assertion=attrs.evolve(words, job=waiting, state=AssertionState.PENDING))])
    async with opened(provider, ScriptedModel(well)) as memory:
        assert await (await memory.inbox.resume()).wait() == ()
        await memory.inbox.flush()
        assert len(await memory.list_records()) == 2


async def test_pending_words_are_not_read_by_a_read_only_memory() -> None:
    """Reading messages writes the facts found in them."""
    provider = await left_unread()
    async with opened(provider, ScriptedModel(well), read_only=True) as memory:
        for call in (memory.inbox.resume, memory.inbox.flush):
            with pytest.raises(ReadOnlyError):
                await call()
    async with opened(provider, ScriptedModel(well), background=PATIENT) as memory:
        with pytest.raises(ReadOnlyError):
            await memory.scope("/product/a", read_only=True).inbox.resume()


@pytest.mark.parametrize("trust", [False, True])
async def test_a_user_imports_no_private_facts_of_another_one(trust: bool) -> None:
    iban, file = Concept.single("iban", "Bank account"), io.StringIO()
    async with Memory("memory:") as memory:
        ann, bo = memory.for_user("ann"), memory.for_user("bo")
        await ann.save(SingleFact(iban, "ann's"))
        await bo.save(SingleFact(iban, "bo's"))
        await bo.admin.export(file)
        forged = file.getvalue().replace('"bo"', '"ann"').replace("bo's", "another")
        with pytest.raises(InvalidDataError, match="only the viewer's own private facts"):
            await bo.admin.import_(io.StringIO(forged), trust=trust)
        assert [record.value for record in await ann.list_records()] == ["ann's"]


async def test_a_user_saves_nothing_as_another_ones() -> None:
    async with Memory("memory:") as memory:
        with pytest.raises(InvalidDataError, match="only the viewer's own private facts"):
            await memory.for_user("ben").save(
                SingleFact(Concept.single("city", "Town"), "Bern"), details=FactDetails(owner="anna")
            )


async def test_only_the_administration_of_an_organization_exports_the_private_facts_of_all_users() -> None:
    iban, provider, file = Concept.single("iban", "Bank account"), InMemoryProvider(), io.StringIO()
    async with Memory(provider, organization="globex") as other, Memory(provider, organization="acme") as memory:
        await other.for_user("ann").save(SingleFact(iban, "of another organization"))
        for name in ("ann", "bo"):
            await memory.for_user(name).save(SingleFact(iban, f"{name}'s"), private=True)
        await memory.save(SingleFact(iban, "everybody's"))
        assert await memory.admin.export(io.StringIO()) == 1
        with pytest.raises(InvalidDataError, match="viewer"):
            await memory.for_user("ann").admin.export(file, all_users=True)
        for view in (memory.scope("/product/alpha"), memory.view(subjects=["user:ann"])):
            with pytest.raises(OutOfViewError):
                await view.admin.export(file, all_users=True)
        assert file.getvalue() == ""
        assert await memory.admin.export(file, all_users=True) == 3
    file.seek(0)
    async with Memory("memory:") as memory:
        await memory.admin.import_(file, trust=True)
        assert [record.value for record in await memory.list_records()] == ["everybody's"]
        for name in ("ann", "bo"):
            assert not_none(await memory.for_user(name).load(iban)).value == f"{name}'s"


async def test_a_user_sees_all_of_their_private_facts_whoever_they_are_about() -> None:
    note, file = Concept.single("note", "What to remember of somebody"), io.StringIO()
    async with Memory("memory:") as memory:
        ann, bo = memory.for_user("ann"), memory.for_user("bo")
        await ann.save(SingleFact(note, "Eva paints."), subject="friend:Eva")
        await memory.save(SingleFact(note, "Bo sings."), subject="user:bo")
        assert [record.value for record in await ann.list_records()] == ["Eva paints."]
        assert (await ann.recall("What does Eva do?"))[0].record.value == "Eva paints."
        assert await ann.load(note) is None  # it is not about the user
        assert await ann.admin.export(file) == 1
        assert [record.value for record in await bo.list_records()] == ["Bo sings."]
        await ann.admin.reset()
        assert await ann.list_records(subject="friend:Eva") == []
        assert [record.value for record in await bo.list_records()] == ["Bo sings."]
