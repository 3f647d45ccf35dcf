"""The memory block of an agent after many turns: what it tells, what it repeats, what it loses.

    python benchmarks/block.py [FOLDER] [--only talks --only mixed …] [--turns 60 200] [--show] [--json]

A bare loop over OpenAI's client has memory installed with default settings, once without a model and once with one: a
loopback server finds exactly the listed facts. Users tell their facts and other statements between chatter, questions
and repetitions, ten turns a day. The block is the one that the server receives with a request of a later day.

FOLDER (default: ``block_material``) holds JSON Lines:

- ``users.jsonl``: ``name``, ``language``, ``facts`` (``keyword``, ``description``, ``type``, ``value``, ``statement``,
  ``also``: the same in other words, ``update``: a later value with its statement), ``statements`` that no concept
  covers, an open ``request``, and ``questions``.
- ``chatter.jsonl``: ``text``, ``kind``, ``language``.
- ``mixed.jsonl``: a ``message`` with a ``fact`` and ``others``, the words that must stay, and ``later``, which replaces
  the fact's value by ``new_value``.
- ``instructions.jsonl``: ``text``, ``standing``, ``language``.
- ``replies.jsonl``: the ``turns`` of a conversation, each with its role, of a ``kind``; the words that a later block
  ``shows`` or ``hides``, and whether any of them ``instructs``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import html
import json
import random
import re
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import anyio
import attrs
from openai import AsyncOpenAI
from rich.console import Console
from rich.table import Table

from factmem import Concept, Memory, MemorySubject, Policies
from factmem.agent import install
from factmem.agent.config import USER, AgentMemoryConfig, estimated_tokens
from factmem.agent.plugin import AgentMemory
from factmem.detection.standing_instructions import instructions_in
from factmem.testing import FakeClock
from factmem.testing.chat_answers import chat_answer, confirming
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer

MATERIAL: Final = Path(__file__).parent / "block_material"
BEGAN: Final = dt.datetime(2025, 3, 3, 9, tzinfo=dt.UTC)
TURNS_A_DAY: Final = 10
REPLIES: Final = (
    "Of course, here you are.",
    "There are several ways to go about this. Start small, write down what happens, and look at it after a day or two.",
    "Sure!",
)
TYPES: Final[Mapping[str, Any]] = {"str": str, "int": int, "bool": bool, "date": dt.date}
_MESSAGE: Final = re.compile(r'<message number="(\d+)" take_facts="yes"[^>]*>(.*?)</message>', re.DOTALL)
_BLOCK: Final = re.compile(r"<memory>.*?</memory>", re.DOTALL)


def material(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the entries of a file; none if there is no such file."""
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line] if path.exists() else []


@attrs.frozen
class Line:
    """An element of a block.

    Attributes:
        tag: ``instruction``, ``fact`` or ``statement``.
        name: The keyword of a fact.
        text: Its text.
        current: Its text without the marked parts, which no longer hold.
    """

    tag: str
    name: str | None
    text: str
    current: str


def lines_of(block: str) -> list[Line]:
    """Return the elements of a block."""
    return [
        Line(
            item.tag,
            item.get("name"),
            "".join(item.itertext()),
            "" if item.get("overtaken") else (item.text or "") + "".join(inner.tail or "" for inner in item),
        )
        for item in (ElementTree.fromstring(block) if block else ())
    ]


class Agent:
    """A bare loop with memory installed, its server, and the model that reads for facts.

    Args:
        folder: Folder of the store.
        facts: Findings by the sentence that they are in: keyword and value.
        concepts: The declared concepts.
        model: Whether memory has a model.
        keep_words: See `Policies`.
    """

    def __init__(
        self,
        folder: str,
        facts: Mapping[str, tuple[str, Any]],
        concepts: Sequence[Concept[Any, Any]],
        *,
        model: bool,
        keep_words: bool = True,
    ) -> None:
        self.clock = FakeClock(BEGAN)
        self.shown = ""
        self._facts = facts
        self._keywords = [concept.keyword for concept in concepts]
        self._replies = random.Random(7)
        self.server = LoopbackOpenAIServer(confirming(self._respond), keep_alive=True)
        config = AgentMemoryConfig(agent_name="helper", concepts=concepts, store="memory:")
        memory = Memory(
            f"{folder}/facts.db",
            clock=self.clock,
            concepts=concepts,
            subjects=(USER, MemorySubject.EVERYTHING),
            scopes=config.scopes,
            model=f"{self.server.base_url}#reader" if model else None,
            policies=Policies(keep_words=keep_words),
        )
        self.memory = AgentMemory(attrs.evolve(config, store=lambda: memory))
        made = AsyncOpenAI(base_url=self.server.base_url, api_key="none", max_retries=0)
        self.client = install(self.memory, into=made)

    async def says(self, text: str, history: list[Any], session: str) -> str:
        """Let the user say something, and return the block that the model received."""
        history.append({"role": "user", "content": text})
        metadata = {"user_id": "somebody", "session_id": session}
        answer = await self.client.chat.completions.create(model="agent", messages=history, metadata=metadata)
        history.append({"role": "assistant", "content": answer.choices[0].message.content})
        self.clock.advance(dt.timedelta(minutes=1))
        return self.shown

    async def settle(self) -> None:
        """Wait until all that was said is read."""
        await self.memory.for_run().held.use(lambda memory: memory.inbox.flush())

    def _respond(self, path: str, request: dict[str, Any]) -> Answer:
        contents = [message["content"] or "" for message in request["messages"] if message["role"] == "user"]
        if request["model"] == "agent":
            found = [block for content in contents for block in _BLOCK.findall(content)]
            self.shown = found[-1] if found else ""
            return chat_answer(self._replies.choice(REPLIES))
        if request["response_format"]["json_schema"]["name"] != "Findings":
            return chat_answer({"known": [], "insert": True})
        findings: dict[str, list[Any]] = {name: [] for name in ("facts", "remember", "forget", *self._keywords)}
        for number, escaped in _MESSAGE.findall(next(text for text in reversed(contents) if "take_facts" in text)):
            said = html.unescape(escaped)
            for sentence, (keyword, value) in self._facts.items():
                if sentence in said:
                    findings[keyword].append({"quote": sentence, "message": int(number), "value": value})
        return chat_answer(findings)


def concept_of(fact: Mapping[str, Any]) -> Concept[Any, Any]:
    """Return the concept of a fact."""
    return Concept.single(fact["keyword"], fact["description"], TYPES[fact.get("type", "str")])


def folded(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


def turns_of(user: Mapping[str, Any], chatter: Sequence[str], count: int, most: int) -> list[str]:
    """Return what a user says: facts and statements within the first turns, updates and repetitions after them.

    Args:
        user: The user.
        chatter: What else is said.
        count: Number of turns within which all facts and updates are said.
        most: Number of all turns.
    """
    chance = random.Random(user["name"])
    telling = [fact["statement"] for fact in user["facts"]] + list(user["statements"])
    chance.shuffle(telling)
    later = [fact["update"]["statement"] for fact in user["facts"] if fact.get("update")]
    later += [again for fact in user["facts"] if not fact.get("update") for again in fact.get("also", ())]
    chance.shuffle(later)
    telling += later
    said = [chance.choice([*user["questions"], *chatter]) for _ in range(most)]
    for place, text in zip(sorted(chance.sample(range(count), len(telling))), telling, strict=True):
        said[place] = text
    return said


@attrs.define
class Tally:
    """Counts over blocks."""

    counts: Counter[str] = attrs.field(factory=Counter)
    missing: list[str] = attrs.field(factory=list)
    needless: list[str] = attrs.field(factory=list)

    def add(self, user: Mapping[str, Any], block: str, *, open_request: bool) -> None:
        """Take in a block."""
        lines = lines_of(block)
        told: set[str] = set()
        typed = {line.name or "" for line in lines if line.tag == "fact"}
        for line in lines:
            if line.tag == "fact":
                continue
            self.counts["statements"] += 1
            held = self._held(user, line)
            if not held or held <= told:
                kind = "repeats" if held else "chatter"
                self.counts[kind] += 1
                self.needless.append(f"{kind}: {line.text}")
            elif held <= typed:
                self.counts["beside"] += 1
            told |= held
        self.counts["blocks"] += 1
        self.counts["tokens"] += estimated_tokens(block)
        self.counts["most tokens"] = max(self.counts["most tokens"], estimated_tokens(block))
        for fact in user["facts"]:
            self._count_fact(fact, lines, open_request)
        if open_request:
            told_of = sum(any(folded(text) in folded(line.text) for line in lines) for text in user["statements"])
            self.counts["durable"] += len(user["statements"])
            self.counts["durable told"] += told_of

    def _held(self, user: Mapping[str, Any], line: Line) -> set[str]:
        """Return what a line tells: keywords of facts, and statements."""
        held = set()
        for fact in user["facts"]:
            update = fact.get("update")
            texts = [fact["statement"], *fact.get("also", ()), *([update["statement"]] if update else [])]
            if any(_same(text, line.text) for text in texts):
                held.add(fact["keyword"])
        return held | {text for text in user["statements"] if _same(text, line.text)}

    def _count_fact(self, fact: Mapping[str, Any], lines: Sequence[Line], open_request: bool) -> None:
        update = fact.get("update")
        now = update or fact
        said = [now["statement"], *(() if update else fact.get("also", ()))]
        value = _written(now["value"])
        typed = any(line.tag == "fact" and line.name == fact["keyword"] and line.text == value for line in lines)
        if open_request:
            self.counts["facts"] += 1
            found = typed or any(_same(text, line.current) for text in said for line in lines if line.tag != "fact")
            self.counts["facts told"] += found
            if not found:
                self.missing.append(now["statement"])
        if update:
            old = _written(fact["value"])
            texts = (fact["statement"], *fact.get("also", ()))
            stale = any(line.tag == "fact" and line.name == fact["keyword"] and line.text == old for line in lines)
            stale |= any(_same(text, line.current) for text in texts for line in lines if line.tag != "fact")
            self.counts["stale"] += stale


def _same(text: str, line: str) -> bool:
    """Return whether a line tells a text, or a part of it."""
    one, two = folded(text), folded(line)
    return bool(one and two) and (one in two or (len(two) >= 6 and two in one))


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


async def talk(
    user: Mapping[str, Any], chatter: Sequence[str], marks: Sequence[int], *, model: bool
) -> dict[int, list[str]]:
    """Let a user talk, and return the blocks after some numbers of turns: for the open request, then for questions."""
    facts = {}
    for fact in user["facts"]:
        facts[fact["statement"]] = (fact["keyword"], fact["value"])
        if update := fact.get("update"):
            facts[update["statement"]] = (fact["keyword"], update["value"])
    said = turns_of(user, chatter, min(marks), max(marks))
    blocks: dict[int, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(folder, facts, [concept_of(fact) for fact in user["facts"]], model=model)
        with agent.server:
            async with agent.memory:
                for start in range(0, len(said), TURNS_A_DAY):
                    history: list[Any] = []
                    for text in said[start : start + TURNS_A_DAY]:
                        await agent.says(text, history, f"day {start}")
                    await agent.settle()
                    agent.clock.advance(dt.timedelta(days=3))
                    if (done := start + TURNS_A_DAY) in marks:
                        asked = [user["request"], *user["questions"][:2]]
                        blocks[done] = [await agent.says(text, [], f"{done} {text}") for text in asked]
                        await agent.settle()
    return blocks


async def talks(folder: Path, marks: Sequence[int], *, show: bool) -> Iterator[dict[str, Any]]:
    """Return the figures of all users' blocks, by model and number of turns."""
    every = material(folder, "chatter")
    tallies: dict[tuple[bool, int], Tally] = defaultdict(Tally)
    for user in material(folder, "users"):
        chatter = [item["text"] for item in every if item["language"] == user["language"]]
        for model in (True, False):
            for mark, blocks in (await talk(user, chatter, marks, model=model)).items():
                for place, block in enumerate(blocks):
                    if show and not place:
                        print(f"--- {user['name']}, {'with' if model else 'without'} a model, {mark} turns\n{block}")
                    tallies[model, mark].add(user, block, open_request=not place)
    return iter([_figures(*key, tally, show=show) for key, tally in sorted(tallies.items(), reverse=True)])


def _figures(model: bool, mark: int, tally: Tally, *, show: bool) -> dict[str, Any]:
    count = tally.counts
    if show:
        print(f"--- {'with' if model else 'without'} a model, {mark} turns", *Counter(tally.needless).most_common())
        print("missing:", *tally.missing, sep="\n  ")
    return {
        "model": model,
        "turns": mark,
        "chatter": f"{count['chatter']} of {count['statements']}",
        "repeats": count["repeats"],
        "beside a fact": count["beside"],
        "facts told": f"{count['facts told']} of {count['facts']}",
        "statements told": f"{count['durable told']} of {count['durable']}",
        "stale": count["stale"],
        "tokens": f"{count['tokens'] / max(count['blocks'], 1):.0f}, at most {count['most tokens']}",
    }


async def mixed(folder: Path, *, show: bool) -> Iterator[dict[str, Any]]:
    """Return how many messages keep the rest of what they say when one of their facts is replaced."""
    counts: dict[bool, Counter[str]] = defaultdict(Counter)
    for item in material(folder, "mixed"):
        fact = item["fact"]
        facts = {
            item["message"]: (fact["keyword"], fact["value"]),
            item["later"]: (fact["keyword"], item["new_value"]),
        }
        for model in (True, False):
            with tempfile.TemporaryDirectory() as store:
                agent = Agent(store, facts, [concept_of(fact)], model=model)
                with agent.server:
                    async with agent.memory:
                        for day, text in enumerate((item["message"], item["later"])):
                            await agent.says(text, [], f"day {day}")
                            await agent.settle()
                            agent.clock.advance(dt.timedelta(days=3))
                        block = await agent.says("What do you know about me?", [], "later")
            lines = lines_of(block)
            count = counts[model]
            lost = [words for words in item["others"] if not any(words in line.current for line in lines)]
            stale = any(_written(fact["value"]) in line.current for line in lines)
            new = any(_written(item["new_value"]) in line.current for line in lines)
            count.update(messages=1, kept=not lost, stale=stale, new=new)
            if show and (lost or stale or not new):
                print("mixed", "with" if model else "without", "a model", lost, stale, new, block, sep="\n  ")
    return iter(
        {
            "model": model,
            "the rest is told": f"{count['kept']} of {count['messages']}",
            "old value told as current": count["stale"],
            "new value told": f"{count['new']} of {count['messages']}",
        }
        for model, count in counts.items()
    )


def wording(folder: Path, *, show: bool) -> Iterator[dict[str, Any]]:
    """Yield how many standing instructions are recognized by their wording, and how many other sentences."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item in material(folder, "instructions"):
        taken = bool(instructions_in(item["text"]))
        kind = "standing" if item["standing"] else "ordinary"
        for language in (item["language"], "all"):
            counts[language].update({kind: 1, f"{kind} taken": taken})
        if show and taken is not item["standing"]:
            print("missed:" if item["standing"] else "taken:", item["text"])
    for language, count in counts.items():
        yield {
            "language": language,
            "standing recognized": f"{count['standing taken']} of {count['standing']}",
            "ordinary taken": f"{count['ordinary taken']} of {count['ordinary']}",
        }


async def replies(folder: Path, *, show: bool) -> Iterator[dict[str, Any]]:
    """Return how many conversations, without a model, leave in a later block what they should, by their kinds."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item in material(folder, "replies"):
        history = [{"role": role, "content": content} for role, content in item["turns"]]
        async with Memory("memory:", clock=FakeClock(BEGAN)) as store:
            agent = AgentMemory(AgentMemoryConfig(store=store, agent_name="helper"))
            with agent.run(user_id="u", session_id="first"):
                if (saved := await agent.save_facts_from_history(history)) is not None:
                    await saved.wait()
            with agent.run(user_id="u", session_id="later"):
                asked = [{"role": "user", "content": "What do you know about me?"}]
                loaded = await agent.load_all_facts_to_agent(asked)
            await agent.aclose()
        block = "".join(found for message in loaded for found in _BLOCK.findall(message["content"]))
        lines = lines_of(block)
        right = any(item.get("shows", "") in line.current for line in lines) or "shows" not in item
        right &= not any(item["hides"] in line.text for line in lines) if "hides" in item else True
        right &= item.get("instructs", instructs := any(line.tag == "instruction" for line in lines)) is instructs
        counts["shown" if "shows" in item else "hidden"].update({item["kind"]: 1, f"{item['kind']} right": int(right)})
        if show and not right:
            print(item["kind"], item["turns"], block, sep="\n  ")
    return iter(
        {"what": what, "kind": kind, "right": f"{count[f'{kind} right']} of {number}"}
        for what, count in counts.items()
        for kind, number in sorted(count.items())
        if f"{kind} right" in count
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Measure what an agent's memory block tells after many turns.")
    parser.add_argument("folder", type=Path, nargs="?", default=MATERIAL, help="folder of the material")
    parser.add_argument(
        "--only", choices=("talks", "mixed", "wording", "replies"), action="append", help="parts to measure"
    )
    parser.add_argument("--turns", type=int, nargs="+", default=[60, 200], help="numbers of turns, multiples of ten")
    parser.add_argument("--show", action="store_true", help="print blocks, and what is wrong with them")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args()
    parts = options.only or ("talks", "mixed", "wording", "replies")
    rows: dict[str, list[dict[str, Any]]] = {}
    if "talks" in parts:
        rows["talks"] = list(anyio.run(lambda: talks(options.folder, sorted(options.turns), show=options.show)))
    if "mixed" in parts:
        rows["mixed"] = list(anyio.run(lambda: mixed(options.folder, show=options.show)))
    if "wording" in parts:
        rows["wording"] = list(wording(options.folder, show=options.show))
    if "replies" in parts:
        rows["replies"] = list(anyio.run(lambda: replies(options.folder, show=options.show)))
    for name, found in rows.items():
        if options.json:
            print(*(json.dumps({"part": name} | row, ensure_ascii=False) for row in found), sep="\n")
            continue
        table = Table(*(found[0] if found else ()), title=name)
        for row in found:
            table.add_row(*map(str, row.values()))
        Console().print(table)


if __name__ == "__main__":
    main()
