"""The cost of questions to a model in tokens, how much of one is in the next, and what a small model answers.

    python benchmarks/prompts.py                                   tokens, common prefixes and schemas, on the wire,
                                                                   and the questions to a verifier in labelled talks
    python benchmarks/prompts.py --model http://127.0.0.1:PORT/v1#smollm2      and what it finds in labelled talks
    python benchmarks/prompts.py --local                           the same with the model of examples/local_model.py

Requests are those that a loopback server receives. Tokens are counted with OpenAI's ``o200k_base`` if ``tiktoken`` has
its file (``TIKTOKEN_CACHE_DIR``), else with the tokenizer of ``wordllama``, which counts about a third more. Labelled
talks are those of ``talks.json``: the second half, ``unseen.json``, was written after the prompt was settled.
"""

from __future__ import annotations

import argparse
import datetime as dt
import enum
import functools
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
import attrs

from factmem.abc import DetectionRequest, Prompt
from factmem.abc.detector import Conversation, Message
from factmem.abc.model import LanguageModel
from factmem.abc.topics import MANAGED_TOPICS, Topic
from factmem.abc.verifier import Claim
from factmem.detection import InstructorDetector
from factmem.detection.verifier import ModelVerifier
from factmem.errors import ModelError
from factmem.facts import Concept, FactType
from factmem.languages import sentence_spans
from factmem.llm import InstructorModel
from factmem.llm.asking import metered
from factmem.llm.instructor_model import language_model
from factmem.subjects import MemorySubject
from factmem.testing import ScriptedModel
from factmem.testing.chat_answers import answering
from factmem.testing.openai_server import LoopbackOpenAIServer

HERE = Path(__file__).parent
USER = MemorySubject("user", "who speaks")
SAID_AT = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
MODES = ("TOOLS", "JSON_SCHEMA", "JSON", "MD_JSON")
SEATS = Concept.single("seats", "How many people fit into the venue", int)
CITY = Concept.single("city", "The city where the user lives")
NOTHING: dict[str, Any] = {"facts": [], "seats": [], "memories": []}

REQUESTS: dict[str, DetectionRequest] = {
    "concepts": DetectionRequest(subjects=[USER], concepts=[SEATS, CITY]),
    "open": DetectionRequest(subjects=[USER], open=True),
    "open and concepts": DetectionRequest(subjects=[USER], concepts=[SEATS, CITY], open=True),
    "managed topics": DetectionRequest(subjects=[USER], topics=MANAGED_TOPICS),
    "all of them": DetectionRequest(subjects=[USER], concepts=[SEATS, CITY], open=True, topics=MANAGED_TOPICS),
}
TURNS = (
    "I moved to Oslo in May and I have two cats, Tom and Kit.",
    "And from June on I work at the harbour, as a pilot.",
)


def counter() -> tuple[str, Callable[[str], int]]:
    """Return the name of a tokenizer, and a function that counts the tokens of a text."""
    try:
        import tiktoken

        encoding = tiktoken.get_encoding("o200k_base")
    except Exception:  # not installed, or its file is neither here nor to be had
        import wordllama
        from tokenizers import Tokenizer

        file = next(Path(wordllama.__file__).parent.rglob("*tokenizer_config.json"))
        tokenizer = Tokenizer.from_file(str(file))
        return "wordllama's tokenizer", lambda text: len(tokenizer.encode(text).ids)
    return "o200k_base", lambda text: len(encoding.encode(text))


async def sent(request: DetectionRequest, text: str, mode: str) -> dict[str, Any]:
    """Return the request that a server receives for one message."""
    with LoopbackOpenAIServer(answering(NOTHING)) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", mode=mode)
        talk = Conversation(messages=[Message(content=text)], started_at=SAID_AT)
        await InstructorDetector(model).detect(talk, request)
        return server.requests[0][1]


def laid_out(request: dict[str, Any]) -> str:
    """Return a request as a provider lays it out for its model: the schema, then the messages."""
    schema = {key: request[key] for key in ("tools", "response_format") if key in request}
    messages = "".join(f"{message['role']}\n{message['content']}\n" for message in request["messages"])
    return f"{json.dumps(schema, separators=(',', ':'), ensure_ascii=False)}\n{messages}"


def common_prefix(one: str, other: str) -> str:
    same = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one[:same]


async def wire() -> dict[str, Any]:
    name, tokens = counter()
    report: dict[str, Any] = {"tokenizer": name, "questions": {}}
    print(f"input tokens of a one-message turn ({name}), and the part of it that the turn before had as well")
    for kind, request in REQUESTS.items():
        for mode in MODES:
            one, other = [laid_out(await sent(request, text, mode)) for text in TURNS]
            common = common_prefix(one, other)
            share = tokens(common) / tokens(other)
            report["questions"][f"{kind}, {mode}"] = {"tokens": tokens(one), "common prefix": round(share, 3)}
            print(f"  {kind:18} {mode:12} {tokens(one):6,}   {share:.1%}")
    schemas = set()
    for length in range(100, 10_100, 100):
        received = await sent(REQUESTS["open and concepts"], "I like it. " * (length // 11), "JSON_SCHEMA")
        schemas.add(json.dumps(received["response_format"]))
    report["schemas over 100 lengths"] = len(schemas)
    print(f"different schemas over 100 lengths of a message: {len(schemas)}")
    return report


@attrs.frozen(kw_only=True)
class Talk:
    """A talk, what is asked about it, and what stands in it."""

    messages: tuple[Message, ...]
    request: DetectionRequest
    facts: tuple[tuple[Any, ...], ...]

    def is_right(self, keyword: str, value: Any, fact: tuple[Any, ...]) -> bool:
        """Return whether a found value is an expected fact: equal for a concept, else with all of its words."""
        if self.request.concepts:
            return (keyword, _plain(value)) == (fact[0], _plain(fact[1]))
        return all(str(word).casefold() in str(value).casefold() for word in fact)


def _plain(value: Any) -> Any:
    plain = value.value if isinstance(value, enum.Enum) else value
    return plain.isoformat() if isinstance(plain, dt.date) else plain.casefold() if isinstance(plain, str) else plain


def _concept(keyword: str, written: dict[str, Any]) -> Concept[Any, Any]:
    kind = Concept.multiple if written.get("kind") == "multiple" else Concept.single
    named = written.get("type", "str")
    types = {"str": str, "int": int, "bool": bool, "date": dt.date}
    typ: Any = types[named] if isinstance(named, str) else enum.Enum(keyword.title(), {n.upper(): n for n in named})
    return kind(keyword, written["description"], typ)


def talks(path: Path) -> list[Talk]:
    """Read the labelled talks of a file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    declared = json.loads((HERE / "talks.json").read_text(encoding="utf-8"))["concepts"]
    concepts = {keyword: _concept(keyword, written) for keyword, written in declared.items()}
    return [_talk(item, concepts) for item in document["talks"]]


def _talk(item: dict[str, Any], concepts: dict[str, Concept[Any, Any]]) -> Talk:
    managed = {topic.label: topic for topic in MANAGED_TOPICS}
    own = [Topic(*item["own_topic"])] if "own_topic" in item else []
    return Talk(
        messages=tuple(_message(text) for text in item["said"]),
        request=DetectionRequest(
            subjects=[USER],
            concepts=[concepts[keyword] for keyword in item.get("concepts", ())],
            open=item.get("open", False),
            topics=[*(managed[label] for label in item.get("topics", ())), *own],
        ),
        facts=tuple(map(tuple, item["facts"])),
    )


def _message(text: str) -> Message:
    role, _, said = text.partition(": ")
    return Message(content=said, role=role) if role == "assistant" else Message(content=text)


@attrs.define
class Score:
    """Counts over labelled talks."""

    expected: int = 0
    found: int = 0
    right: int = 0
    recalled: int = 0
    invalid: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dropped: Counter[str] = attrs.field(factory=Counter)

    def report(self, talks: int) -> dict[str, Any]:
        return {
            "talks": talks,
            "recall": round(self.recalled / max(self.expected, 1), 3),
            "precision": round(self.right / max(self.found, 1), 3),
            "expected": self.expected,
            "found": self.found,
            "right": self.right,
            "invalid answers": self.invalid,
            "input tokens": self.input_tokens,
            "output tokens": self.output_tokens,
            "dropped": dict(self.dropped),
        }


async def scored(model: LanguageModel, labelled: Sequence[Talk]) -> Score:
    score, detector = Score(), InstructorDetector(model)
    for number, talk in enumerate(labelled):
        score.expected += len(talk.facts)
        with metered() as spent:
            try:
                talked = Conversation(messages=talk.messages, id=str(number), started_at=SAID_AT)
                found = await detector.detect(talked, talk.request)
            except ModelError:
                score.invalid += 1
                continue
            finally:
                score.input_tokens += spent.input_tokens
                score.output_tokens += spent.output_tokens
        score.dropped.update({reason.value: count for reason, count in found.dropped.items()})
        believed = [
            item.fact for item in found.candidates if not item.quarantined and not item.doubt and not item.removed
        ]
        pairs = [(fact.concept.keyword, value) for fact in believed for value in fact.values]
        right = [[talk.is_right(*pair, fact) for fact in talk.facts] for pair in pairs]
        score.found += len(pairs)
        score.right += sum(map(any, right))
        score.recalled += sum(map(any, zip(*right, strict=True)))
    return score


def labelled_answer(talk: Talk) -> dict[str, Any]:
    """Return the answer that finds what is labelled, each with the user's sentence that shares most words with it."""
    said = [
        (number, message.content[start:end])
        for number, message in enumerate(talk.messages, 1)
        if message.role == "user"
        for start, end in sentence_spans(message.content)
    ]
    answer: dict[str, list[dict[str, Any]]] = {}
    for fact in talk.facts:
        words = re.findall(r"\w+", " ".join(map(str, fact)).casefold())
        number, quote = max(said, key=lambda sentence: sum(word in sentence[1].casefold() for word in words))
        cited: dict[str, Any] = {"quote": quote, "message": number}
        wanted = {concept.keyword: concept for concept in talk.request.concepts}
        if concept := wanted.get(str(fact[0])):
            single = concept.fact_type is FactType.SINGLE
            answer.setdefault(concept.keyword, []).append(
                {**cited, **({"value": fact[1]} if single else {"values": [fact[1]]})}
            )
        elif talk.request.open:
            item = {"keyword": "finding", "kind": "multiple", "value": ": ".join(map(str, fact)), "description": "-"}
            answer.setdefault("facts", []).append({**cited, **item})
        else:
            label = talk.request.topics[0].label
            answer.setdefault("memories", []).append({**cited, "memory": quote, "topics": [label]})
    return answer or {"facts": []}


def _said_anyway(answer: dict[str, Any], prompt: Prompt, model: type[Any]) -> dict[str, Any]:
    return answer


async def verified(files: Iterable[Path]) -> dict[str, Any]:
    """Count the questions to a verifier, and their tokens, if a model finds what is labelled."""
    name, tokens = counter()
    report: dict[str, Any] = {}
    for path in files:
        labelled, sizes, findings, plain = talks(path), list[int](), 0, 0
        for number, talk in enumerate(labelled):
            answer = functools.partial(_said_anyway, labelled_answer(talk))
            detector = InstructorDetector(ScriptedModel(answer))
            talked = Conversation(messages=talk.messages, id=str(number), started_at=SAID_AT)
            found = (await detector.detect(talked, talk.request)).candidates
            doubted = [item for item in found if item.doubt is not None]
            findings, plain = findings + len(found), plain + len(found) - len(doubted)
            claims = [
                Claim(
                    passage=talk.messages[item.details.evidence[0].position or 0].content,
                    said_at=SAID_AT,
                    about=USER.prompt_description,
                    concept=item.fact.concept.description,
                    value=str(item.fact.values[0]),
                )
                for item in doubted
                if item.doubt is not None and item.doubt.askable
            ]
            if claims:
                verifier = ScriptedModel(lambda prompt, model: {"claims": []})
                await ModelVerifier(verifier).verify(claims)
                (prompt,) = verifier.prompts
                sizes.append(tokens(f"{prompt.instructions}\n{prompt.content}"))
        report[path.stem] = {
            "talks": len(labelled),
            "findings": findings,
            "plainly said": plain,
            "extra questions a talk": round(len(sizes) / len(labelled), 2),
            "tokens of one (mean)": round(sum(sizes) / max(1, len(sizes))),
            "tokens of one (most)": max(sizes, default=0),
        }
        print(f"verifier, {path.stem} ({name}): {json.dumps(report[path.stem])}")
    return report


def local() -> tuple[Any, LanguageModel]:
    """Start the server of ``examples/local_model.py``; return it with its model."""
    spec = importlib.util.spec_from_file_location("local_model", HERE.parent / "examples" / "local_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.serve()
    return server, InstructorModel("smollm2", base_url=f"{server.listening_address}/v1", timeout=600)


async def asked(model: LanguageModel, files: Iterable[Path]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    for path in files:
        labelled = talks(path)
        report[path.stem] = (await scored(model, labelled)).report(len(labelled))
        print(f"{path.stem}: {json.dumps(report[path.stem])}", flush=True)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local", action="store_true", help="ask the model of examples/local_model.py")
    parser.add_argument("--model", help="ask the model at this address")
    parser.add_argument("--talks", type=Path, nargs="*", default=[HERE / "talks.json", HERE / "unseen.json"])
    parser.add_argument("--json", type=Path, help="write the report here")
    given = parser.parse_args()
    report = anyio.run(wire)
    report["verifier"] = anyio.run(verified, given.talks)
    server, model = local() if given.local else (None, language_model(given.model) if given.model else None)
    if model is not None:
        report["talks"] = anyio.run(functools.partial(asked, model, given.talks))
    del server
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
