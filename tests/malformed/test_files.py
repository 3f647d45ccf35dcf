"""Files passed by users: conversations, exports, pages for agents."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from factmem import Concept, InMemoryProvider, Memory, MemoryScope, MemorySubject
from factmem.abc.capabilities import Append
from factmem.agent.agents_md import AgentsMd, AgentsMdFacts
from factmem.agent.agents_md.facts_file import block_in
from factmem.codec import decode_entry, dump_entry, encode_entry, load_entry
from factmem.conversations import conversations_in, read_conversations
from factmem.details import Evidence
from factmem.errors import CodecError, ConversationFormatError, FactMemError, InvalidDataError
from factmem.fold import Moment, fold, revisions
from factmem.memory.journal import Job, JobKind, Trigger, job_json
from factmem.records import AssertionState, FactRecord, LogEntry, Recorded, record_of
from factmem.shapes import accepts, shape_of, type_of
from factmem.testing import FakeClock, HashEmbedder, ScriptedModel
from factmem.values import canonical_bytes, check_json, check_value, decode_value, encode_value
from tests.conftest import Promise
from tests.malformed.feeding import fed, fed_async, peak_memory
from tests.malformed.mutating import deep, hostile, hostile_text, mutated_bytes, mutated_json, mutated_text, torn_json
from tests.malformed.samples import DOCUMENTS, NOW, TYPES, assertions

_BIG = pytest.mark.timeout(14_400)
_CLOCK = FakeClock(NOW)
_USER = MemorySubject("user", "The user", priority_level=1)

_CHAT: list[Any] = [
    {"role": "user", "content": "I live in Oslo.", "id": "m1", "timestamp": "2024-05-08T13:56:00Z", "name": "Ann"},
    {"role": "assistant", "content": [{"type": "text", "text": "I see."}, {"type": "image"}], "created_at": 1715176560},
    {"role": "tool", "content": None, "tool_calls": [{"id": 1}]},
]
_LOCOMO: dict[str, Any] = {
    "sample_id": "c1",
    "conversation": {
        "session_1": [{"speaker": "Ann", "text": "hi", "dia_id": "D1:1", "blip_caption": "a cat"}],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    },
}
_LONGMEMEVAL: dict[str, Any] = {
    "haystack_sessions": [_CHAT, _CHAT],
    "haystack_session_ids": ["s1", 2],
    "haystack_dates": ["2023/05/20 (Sat) 02:21", None],
}
_CONVERSATIONS: list[Any] = [
    _CHAT,
    {"messages": _CHAT, "id": "c1", "created_at": 1715176560.5},
    [{"messages": _CHAT}, {"messages": []}],
    _LOCOMO,
    [_LONGMEMEVAL],
]


@_BIG
def test_a_conversation_file_is_refused_or_read(tmp_path: Path, big: bool, promise: Promise) -> None:
    def feed(rng: random.Random) -> None:
        document = rng.choice(_CONVERSATIONS)
        data = torn_json(rng, document)
        if rng.random() < 0.2:
            data = b"\n".join(torn_json(rng, message) for message in _CHAT)
        if rng.random() < 0.1:
            data = mutated_bytes(rng, gzip.compress(data, mtime=0))
        list(conversations_in(io.BytesIO(data)))

    promise("malformed conversation files", fed("conversations", 40_000 if big else 500, feed))
    for name in ("", "\0", "\ud800", "a" * 300, str(tmp_path), "\n"):
        with pytest.raises(ConversationFormatError):
            list(read_conversations(name))


def test_what_unpacks_to_far_more_than_it_is_does_not_fill_the_memory() -> None:
    packed, before = gzip.compress(b"[" + b" " * 100_000_000 + b"]", mtime=0), peak_memory()
    fed("bomb", 1, lambda _: list(conversations_in(io.BytesIO(packed))))
    assert peak_memory() - before < 64_000_000


@_BIG
def test_an_import_is_refused_or_leaves_a_memory_that_can_be_read(big: bool, promise: Promise) -> None:
    """Imported entries must not make earlier ones unreadable."""
    lines = [json.dumps({"v": 1, "kind": "factmem-export"}).encode(), *map(dump_entry, _recorded())]
    keywords = [said.keyword for said in assertions()]
    concepts: list[Concept[Any, Any]] = [
        Concept.multiple(f"concept {number}", "", value_type)
        for number, (value_type, _) in list(enumerate(TYPES))[1::4]
    ]

    async def feed(rng: random.Random) -> None:
        torn = [rng.choice(lines[1:]) for _ in range(rng.randrange(4))]
        torn.append(torn_json(rng, json.loads(rng.choice(lines[1:]))))
        rng.shuffle(torn)
        data = b"\n".join([lines[0] if rng.random() < 0.95 else torn_json(rng, json.loads(lines[0])), *torn])
        memory = Memory(
            InMemoryProvider(clock=_CLOCK), viewer="alice", concepts=concepts, embedder=HashEmbedder(4), clock=_CLOCK
        )
        try:
            await memory.admin.import_(io.StringIO(data.decode(errors="surrogateescape")), trust=rng.random() < 0.5)
        finally:
            await _read_all(memory, rng.choice(keywords))

    promise("malformed imports", fed_async("imports", 3_000 if big else 150, feed))


async def _read_all(memory: Memory, keyword: str) -> None:
    """Read all records after an import; this must not fail, not even with an error of factmem's own."""
    try:
        records = await memory.list_records()
        assert repr(records)
        await memory.admin.tree()
        await memory.admin.info()
        await memory.history(keyword)
        await memory.recall("Oslo", limit=50)
        await memory.inbox.quarantine.list()
        await memory.admin.export(io.StringIO())
    except Exception as error:
        raise AssertionError("what was imported keeps others from reading") from error


@_BIG
def test_words_with_a_job_that_nobody_gave_are_read_or_left_alone(big: bool, promise: Promise) -> None:
    """Jobs are recorded in the store, so an import can contain any."""
    job = dict(job_json(Job(id="e1", kind=JobKind.DETECT, infer=("scope",), trigger=Trigger(count=2))))
    job["request"] = {"concepts": [], "subjects": [], "topics": []}
    words = next(said for said in assertions() if said.job is not None)

    async def feed(rng: random.Random) -> None:
        provider = InMemoryProvider(clock=_CLOCK)
        torn: Any = mutated_json(rng, job)
        check_json(torn)
        said = attrs.evolve(words, job=torn if isinstance(torn, dict) else job, state=AssertionState.PENDING)
        said = attrs.evolve(
            said, details=attrs.evolve(said.details, evidence=[Evidence(quote="so")] * rng.randrange(2))
        )
        await provider.append([Append(assertion=said)])
        model = ScriptedModel(lambda prompt, answer: hostile(rng) if rng.random() < 0.5 else {})
        async with Memory(provider, model=model, embedder=HashEmbedder(4), clock=_CLOCK) as memory:
            with anyio.move_on_after(0.2):
                await memory.inbox.flush()
            await memory.inbox.dead_letters.list()
            await _read_all(memory, said.keyword)

    promise("malformed jobs", fed_async("jobs", 2_000 if big else 60, feed))


def _recorded() -> list[Recorded]:
    return [
        Recorded(assertion=said, id=f"{seq:032x}", record_id=f"{seq + 99:032x}", seq=seq, recorded_at=NOW)
        for seq, said in enumerate(assertions(), start=1)
        if said.details.owner in (None, "alice")
    ]


@_BIG
def test_a_page_for_agents_is_refused_or_read(tmp_path: Path, big: bool, promise: Promise) -> None:
    path = tmp_path / "AGENTS.md"

    async def feed(rng: random.Random) -> None:
        memory = Memory(InMemoryProvider(clock=_CLOCK), embedder=HashEmbedder(4), clock=_CLOCK)
        city = Concept.single("city", "Where the user lives")
        seats = Concept.multiple("seats", "Which", int)
        await memory.save(city.fact(["Oslo\n- [x] **b**: <!-- -->"], timestamp=NOW), subject=_USER)
        await memory.save(seats.fact([4, 5], timestamp=NOW), subject=_USER, scope=MemoryScope.product("alpha"))
        facts = AgentsMdFacts(memory, path, subjects=[_USER], concepts=[city, seats], clock=_CLOCK)
        path.write_text("# Rules\n\nBe kind.\n```\ncode\n```\n", encoding="utf-8")
        await facts.sync()
        written = path.read_bytes()
        if rng.random() < 0.5:
            path.write_bytes(mutated_bytes(rng, written))
        else:
            path.write_bytes(mutated_text(rng, written.decode()).encode(errors="surrogatepass"))
        await facts.sync()
        await facts.sync()

    promise("malformed pages for agents", fed_async("agents", 2_000 if big else 80, feed))


@_BIG
def test_a_text_for_agents_is_refused_or_shown(tmp_path: Path, big: bool, promise: Promise) -> None:
    page = "# Rules\n\n- a\n<!-- for people -->\n<!-- factmem:begin: x -->\n- b\n<!-- factmem:end 0a:0123456789ab -->\n"
    path = tmp_path / "AGENTS.md"

    def feed(rng: random.Random) -> None:
        text = mutated_text(rng, page)
        path.write_bytes(text.encode(errors="surrogatepass"))
        AgentsMd([path]).read_blocking().prompt()
        block_in(text, "AGENTS.md")
        AgentsMd([hostile_text(rng)[:300]], tmp_path).read_blocking()

    promise("malformed texts for agents", fed("texts for agents", 15_000 if big else 200, feed))


def test_damaged_gzip_of_any_length_is_reported_as_such() -> None:
    packed = gzip.compress(json.dumps(_CHAT).encode(), mtime=0)
    for end in range(1, len(packed)):
        with pytest.raises(ConversationFormatError):
            list(conversations_in(io.BytesIO(packed[:end])))


# Documents, values and shapes that factmem did not write.

_LOADED: list[Any] = [json.loads(json.dumps(document)) for document in DOCUMENTS]


@_BIG
def test_a_document_is_refused_or_good_for_everything(big: bool, promise: Promise) -> None:
    """Every accepted entry can be written, folded and shown, so that no later step fails."""

    def feed(rng: random.Random) -> None:
        document = rng.choice(_LOADED)
        if rng.random() < 0.5:
            entry = load_entry(torn_json(rng, document))
        else:
            mutated = mutated_json(rng, document)
            entry = decode_entry(mutated if isinstance(mutated, dict) else {"v": mutated})
        _use(entry)

    promise("malformed documents", fed("documents", 350_000 if big else 1_500, feed))


def _use(entry: LogEntry) -> None:
    with contextlib.suppress(CodecError):  # a text of half a megabyte is legal, and stored in two parts
        assert load_entry(dump_entry(entry)) == entry
    assert decode_entry(json.loads(json.dumps(encode_entry(entry)))) == entry
    moment = Moment(now=NOW)
    fold([entry], moment)
    revisions([entry], moment)
    if isinstance(entry, Recorded) and not entry.assertion.removed:
        try:
            shown: FactRecord[Any] = record_of(entry)
        except FactMemError as error:
            raise AssertionError("it was read but cannot be shown") from error
        assert repr(shown)


@_BIG
def test_a_value_is_refused_or_reads_back(big: bool, promise: Promise) -> None:
    def feed(rng: random.Random) -> None:
        value_type, value = rng.choice(TYPES)
        data: Any = hostile(rng) if rng.random() < 0.5 else mutated_json(rng, [encode_value(value, value_type)])
        if isinstance(data, list) and len(data) == 1:
            (data,) = data
        read = decode_value(data, value_type)
        checked = check_value(read, value_type)
        concept: Concept[Any, Any] = Concept.single("k", "", value_type)
        fact = concept.fact([checked], timestamp=NOW)
        assert fact == fact
        assert repr(fact)
        canonical_bytes(encode_value(checked, value_type))

    promise("malformed values", fed("values", 300_000 if big else 700, feed))


def _only(items: Any) -> Any:
    return items[0] if isinstance(items, list) and len(items) == 1 else items


@_BIG
def test_a_shape_is_refused_or_gives_a_type(big: bool, promise: Promise) -> None:
    shapes: list[Any] = [shape_of(value_type) for value_type, _ in TYPES]

    def feed(rng: random.Random) -> None:
        first, second = (_only(mutated_json(rng, [rng.choice(shapes)])) for _ in range(2))
        types = [type_of(first), type_of(second)]
        accepts(first, second)
        accepts(second, first)
        for value_type in types:
            shape_of(value_type)
            with contextlib.suppress(FactMemError):
                decode_value(hostile(rng), value_type)

    promise("malformed shapes", fed("shapes", 250_000 if big else 500, feed))


@pytest.mark.parametrize("between", [lambda shape: shape, lambda shape: {"list": shape}], ids=["at once", "in lists"])
def test_unions_in_unions_are_compared_in_bearable_time(between: Callable[[Any], Any]) -> None:
    """Each of two options is compared with each of two others, on sixty levels."""
    one: Any = "int"
    other: Any = "str"
    for _ in range(60):
        one, other = {"union": [between(one), between(one)]}, {"union": [between(other), between(other)]}
    fed("unions", 1, lambda _: accepts(one, other) or accepts(other, one))
    assert not accepts(one, other)


def test_long_enumerations_are_compared_in_bearable_time() -> None:
    one, other = ({"enum": [f"{prefix}{number}" for number in range(100_000)]} for prefix in "ab")
    fed("enumerations", 1, lambda _: accepts(one, other))
    assert not accepts(one, other)
    assert accepts(one, {"enum": [*one["enum"], "c"]})


def test_deep_documents_are_refused() -> None:
    for levels in (65, 1_000, 100_000):
        for named in (False, True):
            with pytest.raises(CodecError):
                load_entry(b'{"v":1,"kind":"assertion","a":' + _written_deep(levels, named=named) + b"}")
    with pytest.raises(FactMemError):
        encode_value(deep(500), object)


def _written_deep(levels: int, *, named: bool) -> bytes:
    return (b'{"a":' * levels + b"1" + b"}" * levels) if named else b"[" * levels + b"]" * levels


def test_a_long_list_of_wrong_items_is_refused_without_gathering_what_is_wrong_with_each() -> None:
    """Half a million errors with their tracebacks took 16 seconds and 700 megabytes."""
    wrong: Any = [0] * 450_000
    document = {**_LOADED[0], "assertion": {**_LOADED[0]["assertion"], "shape": {"list": "str"}, "data": wrong}}
    evidence = {**_LOADED[0]["assertion"], "details": {"evidence": [{"a": 1}] * 100_000}}
    before = peak_memory()
    for refused in (document, {**_LOADED[0], "assertion": evidence}):
        with pytest.raises(CodecError):
            decode_entry(refused)
    with pytest.raises(InvalidDataError):
        decode_value(wrong, list[str])
    assert peak_memory() - before < 200_000_000


def test_the_message_is_short_however_long_the_names_in_a_document_are() -> None:
    with pytest.raises(InvalidDataError) as error:
        check_json({"k" * 900_000: [[float("nan")]]})
    assert len(str(error.value)) < 500
    fed("long names", 1, lambda _: check_json({"k" * 900_000: [0] * 60_000}))
