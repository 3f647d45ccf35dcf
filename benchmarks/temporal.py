"""Questions about times ("Who did I meet yesterday?") over diaries in conversations, by the packed sets.

    python benchmarks/temporal.py [--held] [--embedder minilm] [--failures]

Each diary is remembered in a store of its own, by default settings and without a model; each question is asked at its
own moment, with what was said later in the store as well. A figure is the share of the statements that answer which
stand among the first results.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, Final

import anyio
import blind_sets
from retrieval_metrics import Scores, first_seen, fraction_found

from factmem import Conversation, Embedder, InMemoryProvider, Memory, Message
from factmem.recall.embedders import embedder_named
from factmem.testing import FakeClock

RANKS: Final = (1, 5, 10)


def _conversations(sessions: Sequence[Any]) -> Iterator[Conversation]:
    for number, session in enumerate(sessions):
        noon = dt.datetime.fromisoformat(f"{session['date']}T12:00+00:00")
        messages = [
            Message(content=turn["text"], role=turn["role"], id=f"{number}/{place}", timestamp=noon)
            for place, turn in enumerate(session["turns"])
        ]
        yield Conversation(messages=messages, id=str(number))


async def measure(diaries: Sequence[Any], embedder: Embedder, *, failures: bool = False) -> Scores:
    """Ask every question of every diary."""
    scores = Scores()
    for diary in diaries:
        clock = FakeClock(dt.datetime(2040, 1, 1, tzinfo=dt.UTC))
        async with Memory(InMemoryProvider(), embedder=embedder, clock=clock) as memory:
            await memory.remember_many(list(_conversations(diary["sessions"])))
            for question in diary["questions"]:
                clock.set(dt.datetime.fromisoformat(f"{question['asked']}T20:00+00:00"))
                matches = await memory.recall(question["text"], limit=max(RANKS))
                found = first_seen(match.record.evidence[0].message_id or "" for match in matches)
                gold = [f"{session}/{turn}" for session, turn in question["gold"]]
                for rank in RANKS:
                    scores.add(f"@{rank}", fraction_found(found, gold, rank))
                if failures and fraction_found(found, gold, 5) < 1:
                    print(question["asked"], question["text"], gold)
                    for match in matches[:6]:
                        said = f"{match.record.evidence[0].message_id} {match.record.timestamp:%d %b}"
                        print(f"    {match.score:.2f} {match.parts.dated:.2f} {said} {match.record.value}")
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description="Questions about times.")
    parser.add_argument("--held", action="store_true", help="the half that is opened once, at the end")
    parser.add_argument("--embedder", default="wordllama", help="name of an embedder, such as minilm")
    parser.add_argument("--failures", action="store_true", help="print what is not found, with what is")
    options = parser.parse_args()
    diaries = blind_sets.read("temporal", "held" if options.held else "building")

    async def run() -> None:
        scores = await measure(diaries, embedder_named(options.embedder), failures=options.failures)
        figures = ", ".join(f"{name} {value:.3f}" for name, value in scores.means().items())
        print(f"{scores.counts()['@5']} questions: {figures}")

    anyio.run(run)


if __name__ == "__main__":
    main()
