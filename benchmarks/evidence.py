"""Evidence: how many forged and honest findings are believed, wait or are dropped, by set, kind and language.

    python benchmarks/evidence.py [--json]

A case is a message, a quote from it, and a value that a model derives from the quote; the value is forged if the
speaker does not say it. The detector reads each case with a model that answers so; three verifiers settle its doubts:

- *none*: what is not plainly said waits.
- *label*: it answers as the case is labelled. It shows that the parts work together, and says nothing of a real model.
- *yes*: it confirms everything, as the worst model would.

The sets:

- *known*: cases that earlier rules were mended with.
- *unseen*: cases that nobody has looked at one by one since.
- *dangers*: forgeries that each mechanism invites, written before it, with honest counterparts.
- *new*: written apart from the code. It was built with one half in view; the other was opened once, and is spent.
- *second* to *seventh*: written apart from the code and from the other sets, one after the other. One half was
  built with, the other opened once; all are spent.

A line of ``evidence_cases`` has a concept of `CONCEPTS`, the value as JSON, and the message with the quote between
``[[`` and ``]]``. ``A: ... >>`` before it is the assistant's previous message. A line that begins with ``#`` names the
kind of the cases below it.
"""

from __future__ import annotations

import argparse
import collections
import datetime as dt
import decimal
import enum
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import anyio
import attrs
import blind_sets
from rich.console import Console
from rich.table import Table

from factmem.abc import Detection, DetectionRequest
from factmem.abc.detector import Conversation, Message
from factmem.abc.topics import Topic
from factmem.detection import InstructorDetector
from factmem.facts import STATEMENT, Concept
from factmem.subjects import MemorySubject
from factmem.testing import ScriptedModel

FOLDER: Final = Path(__file__).with_name("evidence_cases")
WRITTEN_ON: Final = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)
"""The time of the messages of ``evidence_cases``."""
PACKED_ON: Final = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)
"""The time of the messages of the sets in two halves."""
USER: Final = MemorySubject("user", "the person who writes")
Fate: TypeAlias = Literal["believed", "waiting", "dropped"]
VERIFIERS: Final = ("none", "label", "yes")


def _choice(name: str, *members: str) -> type[enum.Enum]:
    names = {re.sub(r"\W", "_", member.replace("+", "_plus")).upper(): member for member in members}
    return enum.Enum(name, names)  # type: ignore[return-value]


@attrs.frozen
class Address:
    street: str
    number: int
    city: str


@attrs.frozen
class Animal:
    name: str
    species: str | None = None
    age: int | None = None


_TEAM: Any = Literal["platform", "security", "design"]
_single, _multiple = Concept.single, Concept.multiple
CONCEPTS: Final[dict[str, Concept[Any, Any]]] = {
    concept.keyword: concept
    for concept in (
        STATEMENT,
        _single("city", "The city where they live"),
        _single("seats", "How many seats they need", int),
        _single("plan", "Their plan", _choice("Plan", "free", "pro", "enterprise")),
        _single("diet", "What they eat", _choice("Diet", "omnivore", "vegetarian", "vegan")),
        _single("deadline", "When it is due", dt.date),
        _single("birthday", "When they were born", dt.date),
        _single("meeting", "When they meet", dt.datetime),
        _single("budget", "Their budget", decimal.Decimal),
        _single("discount", "The discount", float),
        _single("smoker", "Whether they smoke", bool),
        _single("newsletter", "Whether they want the newsletter", bool),
        _single("has_car", "Whether they own a car", bool),
        _single("remote", "Whether they work remotely", bool),
        _single("drink", "Their favourite drink"),
        _multiple("hobby", "What they like to do"),
        _multiple("allergies", "Foods that they are allergic to"),
        _multiple("dislikes", "What they dislike"),
        _single("name", "What they are called"),
        _single("employer", "The company that they work for"),
        _single("job", "What they do for a living"),
        _multiple("pet", "An animal that they keep"),
        _single("car", "The car that they drive"),
        _single("duration", "How long it takes", dt.timedelta),
        _single("wake", "When they get up", dt.time),
        _single("priority", "How urgent it is", _choice("Priority", "low", "medium", "high")),
        _single("frequency", "How often it happens", _choice("Frequency", "daily", "weekly", "monthly")),
        _single("tone", "How they want to be answered", _choice("Tone", "formal", "casual")),
        _multiple("language", "A language that they speak"),
        _single("email", "Their mail address"),
        _single("website", "Their home page"),
        _single("age", "Their age in years", int),
        _single("children", "How many children they have", int),
        _single("rating", "How many stars they give", float),
        _single("team", "Their team", _TEAM),
        _single("address", "Where they live", Address),
        _single("animal", "Their pet", Animal),
        _single("stack", "The languages that they program in", list[str]),
        _multiple("goals", "What they want to reach"),
        _multiple("former_city", "Where they lived before"),
        _single("destination", "Where they plan to travel"),
        _single("phone", "Their phone number"),
        _single("marital", "Their marital status", _choice("Marital", "single", "married", "divorced")),
        _single("size", "The size of their clothes", _choice("Size", "S", "M", "L", "XL")),
        _single("theme", "The theme of the interface", _choice("Theme", "light", "dark")),
        _single("contact", "How to reach them", _choice("Contact", "email", "phone", "sms")),
        _single("status", "How far it is", _choice("Status", "todo", "in progress", "done")),
        _single("weight", "Their weight in kilograms", float),
    )
}
TYPES: Final[Mapping[str, Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "date": dt.date,
    "datetime": dt.datetime,
    "time": dt.time,
    "duration": dt.timedelta,
}


@attrs.frozen(kw_only=True)
class Case:
    """A conversation, and a value that a model derives from a quote of one of its messages.

    Attributes:
        honest: whether the speaker says the value.
        kind: what the case is an example of.
        language: code of its language.
        concept: the concept of the value.
        value: the value, as JSON.
        messages: the messages.
        cited: number of the message that is quoted.
        quote: the words quoted.
        said_at: when the conversation begins.
        subject: what the fact is about.
    """

    honest: bool
    kind: str
    language: str
    concept: Concept[Any, Any]
    value: Any
    messages: Sequence[Message]
    cited: int
    quote: str
    said_at: dt.datetime
    subject: MemorySubject = USER


def sets() -> dict[str, list[Case]]:
    """Return the cases of each set."""
    found = {
        "known": [case for name in ("first", "second", "third") for case in _written(name)],
        "unseen": [*_written("unseen")],
        "dangers": [*_written("fourth")],
    }
    for name in ("new", "second", "third", "fourth", "fifth", "sixth", "seventh"):
        file = "evidence" if name == "new" else f"evidence_{name}"
        found[name] = [_packed(case) for half in blind_sets.HALVES for case in blind_sets.read(file, half)]
    return found


def _written(name: str) -> Iterator[Case]:
    for sort in ("honest", "forged"):
        kind = ""
        for line in (FOLDER / f"{sort}_{name}.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                kind = line.removeprefix("# ")
                continue
            concept, value, said = line.split("\t")
            asked, _, text = said.replace("\\n", "\n").rpartition(" >> ")
            before = [Message(content=asked.removeprefix("A: "), role="assistant")] if asked else []
            yield Case(
                honest=sort == "honest",
                kind=kind,
                language="",
                concept=CONCEPTS[concept],
                value=json.loads(value),
                cited=len(before) + 1,
                messages=[*before, Message(content=text.replace("[[", "").replace("]]", ""))],
                quote=text[text.index("[[") + 2 : text.index("]]")],
                said_at=WRITTEN_ON,
            )


def _packed(case: Mapping[str, Any]) -> Case:
    of, value = case["concept"], case["value"]
    if of["type"] == "duration":
        value = _seconds(value)
    value_type = _choice("Choice", *of["options"]) if of["type"] == "enum" else TYPES[of["type"]]
    return Case(
        honest=case["honest"],
        kind=case["kind"],
        language=case["language"],
        concept=Concept.single(of["keyword"], of["description"], value_type),
        value=value,
        messages=[Message(content=message["text"], role=message["role"]) for message in case["messages"]],
        cited=case["said_in"] + 1,
        quote=case["quote"],
        said_at=PACKED_ON,
        subject=MemorySubject(case["subject"]["name"], case["subject"]["description"]),
    )


def _seconds(length: str) -> int:
    units = {"Y": 31_536_000, "W": 604_800, "D": 86_400, "H": 3_600, "M": 60, "S": 1}
    days, _, times = length.partition("T")
    months = sum(int(count) * 2_592_000 for count in re.findall(r"(\d+)M", days))
    rest = re.findall(r"(\d+)([YWD])", days) + re.findall(r"(\d+)([HMS])", times)
    return months + sum(int(count) * units[unit] for count, unit in rest)


async def detect(case: Case) -> Detection:
    """Return the outcome of detection for a case."""
    cited, concept = {"quote": case.quote, "message": case.cited}, case.concept
    if concept == STATEMENT:
        request = DetectionRequest(topics=[Topic("all")], subjects=[case.subject])
        answer: dict[str, Any] = {"memories": [{**cited, "memory": case.value, "topics": ["all"]}]}
    else:
        several = concept.fact_type.value == "multiple"
        request = DetectionRequest(concepts=[concept], subjects=[case.subject])
        answer = {concept.keyword: [{**cited, **({"values": [case.value]} if several else {"value": case.value})}]}
    detector = InstructorDetector(ScriptedModel(lambda prompt, model: answer))
    found = await detector.detect(Conversation(messages=case.messages, id="c", started_at=case.said_at), request)
    said = tuple(item for item in found.candidates if item.fact.concept.keyword == concept.keyword)
    return attrs.evolve(found, candidates=said)


def fate(found: Detection, verifier: str, *, honest: bool) -> Fate:
    """Return what becomes of the finding of a case once a verifier has settled its doubt."""
    if not found.candidates:
        return "dropped"
    doubts = [item.doubt for item in found.candidates]
    if None in doubts:
        return "believed"
    if verifier == "none" or not any(doubt is not None and doubt.askable for doubt in doubts):
        return "waiting"
    return "believed" if verifier == "yes" or honest else "dropped"


@attrs.frozen
class Count:
    """Outcome of some cases of one sort.

    Attributes:
        cases: their number.
        fates: how many were believed, waited or were dropped, by verifier.
    """

    cases: int
    fates: Mapping[str, Mapping[str, int]]

    def share(self, fate: Fate) -> float:
        """Return the share of the cases that had a fate without a verifier."""
        return self.fates["none"].get(fate, 0) / max(1, self.cases)

    def __str__(self) -> str:
        believed = {name: self.fates[name].get("believed", 0) for name in VERIFIERS}
        dropped = self.fates["none"].get("dropped", 0)
        return (
            f"{believed['none']} of {self.cases} believed, {dropped} dropped"
            f" (verifier by the label: {believed['label']} believed; always yes: {believed['yes']})"
        )


_Key: TypeAlias = tuple[str, bool, str, str]


async def measured(cases: Mapping[str, Iterable[Case]]) -> dict[_Key, Count]:
    """Return the outcomes by set, sort, language and kind."""
    fates: dict[_Key, dict[str, collections.Counter[str]]] = {}
    for name, several in cases.items():
        for case in several:
            found = await detect(case)
            by_verifier = fates.setdefault((name, case.honest, case.language, case.kind), {})
            for verifier in VERIFIERS:
                by_verifier.setdefault(verifier, collections.Counter())[fate(found, verifier, honest=case.honest)] += 1
    return {key: Count(by_verifier["none"].total(), by_verifier) for key, by_verifier in fates.items()}


def summed(counts: Iterable[Count]) -> Count:
    """Return the sum of some outcomes."""
    several = list(counts)
    fates = {
        name: sum((collections.Counter(one.fates[name]) for one in several), collections.Counter())
        for name in VERIFIERS
    }
    return Count(sum(one.cases for one in several), fates)


def figures(found: Mapping[_Key, Count]) -> dict[str, Count]:
    """Return the outcomes by sort and set, of both old sets, and of the new ones by English and other languages."""
    sums: dict[str, list[Count]] = {}
    for (name, honest, language, _), count in found.items():
        sort = "honest" if honest else "forged"
        sums.setdefault(f"{sort}, {name}", []).append(count)
        if name in ("known", "unseen"):
            sums.setdefault(f"{sort}, old", []).append(count)
        if language:
            sums.setdefault(f"{sort}, {name}, {'English' if language == 'en' else 'other languages'}", []).append(count)
    return {name: summed(counts) for name, counts in sums.items()}


def misses(found: Mapping[str, Count]) -> list[str]:
    """Return the names of the figures that miss their goals; the old sets have one together."""
    missed = []
    for name, count in found.items():
        sort, _, rest = name.partition(", ")
        if rest in ("known", "unseen", "dangers"):
            continue
        if sort == "forged":
            good = count.share("believed") <= (0.01 if rest == "old" else 4 / 150)
        else:
            least = {"English": 0.7, "languages": 0.55}.get(rest.rpartition(" ")[2], 0)
            good = count.share("dropped") <= 0.005 and count.share("believed") >= least
        missed += [] if good else [name]
    return missed


def _table(title: str, rows: Mapping[Any, Count]) -> Table:
    table = Table(title, "cases", "believed: none", "label", "yes", "dropped", "waiting")
    for name, count in sorted(rows.items()):
        none = count.fates["none"]
        believed = [str(count.fates[verifier].get("believed", 0)) for verifier in VERIFIERS]
        table.add_row(str(name), str(count.cases), *believed, str(none.get("dropped", 0)), str(none.get("waiting", 0)))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the forged and honest findings that are believed.")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args()
    found = anyio.run(measured, sets())
    totals = figures(found)
    if options.json:
        print(json.dumps({"figures": {name: str(count) for name, count in totals.items()}, "missed": misses(totals)}))
    else:
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(_table("set", totals))
        for sort in (False, True):
            by_kind: dict[str, list[Count]] = {}
            for (name, honest, language, kind), count in found.items():
                if honest is sort and kind:
                    by_kind.setdefault(f"{name}: {kind}", []).append(count)
                if honest is sort and language:
                    by_kind.setdefault(f"{name}: [{language}]", []).append(count)
            rows = {name: summed(counts) for name, counts in by_kind.items()}
            console.print(
                _table("honest, by kind and language" if sort else "forged, by kind and language", rows), markup=False
            )
    if missed := misses(totals):
        print(f"goals missed: {'; '.join(missed)}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
