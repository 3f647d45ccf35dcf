"""Submit now and read later: nothing is lost if the model is unavailable or the process ends.

Submitted messages are on disk when the call returns, and are recalled verbatim until they are read. Events of a stream
are read together when a trigger fires. Without a model, a stand-in on 127.0.0.1 gives the answers below; FACTMEM_MODEL
names a real one.
"""

import datetime as dt
import logging
import os
import sys
import tempfile

import anyio

from factmem import Background, Concept, LanguageModel, Memory, Message, language_model
from factmem.llm import InstructorModel
from factmem.memory import Trigger
from factmem.testing.chat_answers import answering, unreachable_base_url
from factmem.testing.openai_server import LoopbackOpenAIServer

SEATS = Concept.single("seats", "How many seats are booked", int)
NINE = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
NOTHING: dict[str, object] = {"facts": [], "remember": [], "forget": []}
ANSWERS = (
    {**NOTHING, "seats": [{"quote": "I booked 40 seats", "message": 1, "value": 40}]},
    {**NOTHING, "seats": [{"quote": "make it 60 seats", "message": 2, "value": 60}]},
)


def event(number: int, text: str) -> Message:
    return Message(id=f"event-{number}", content=text, timestamp=NINE + dt.timedelta(minutes=number))


async def main(model: LanguageModel) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite-vec:{folder}/facts.db"
        away = InstructorModel("away", base_url=unreachable_base_url(), retries=0)

        quick = Background(attempts=1)
        async with Memory(store, model=away, concepts=[SEATS], background=quick) as memory:
            submission = await memory.remember_many([event(0, "I booked 40 seats.")])
            print("on disk, unread:", submission.pending)
            (outcome,) = await submission.wait()
            print("the model is away:", outcome.failure)
            (kept,) = await memory.recall("seats")
            print("kept as it was said:", kept.record.value)

        async with Memory(store, model=model, concepts=[SEATS]) as memory:  # a later process, with a model
            (retried,) = await memory.inbox.dead_letters.retry()
            print("read after all:", [record.value for record in retried])

            three = Trigger(count=3, idle=dt.timedelta(minutes=10))
            await memory.inbox.ingest_events("chat", [event(3, "Thanks!")], trigger=three)
            await memory.inbox.ingest_events("chat", [event(1, "One moment."), event(1, "One moment.")], trigger=three)
            reading = await memory.inbox.ingest_events("chat", [event(2, "Please make it 60 seats.")], trigger=three)
            (outcome,) = await reading.wait()  # the third event fires the trigger
            for change in outcome.changes:
                print(f"{change.kind.value}: {change.previous and change.previous.value} -> {change.record.value}")


logging.basicConfig(stream=sys.stdout, format="log: %(message)s")
with LoopbackOpenAIServer(answering(*ANSWERS)) as stand_in:
    anyio.run(main, language_model(os.environ.get("FACTMEM_MODEL", f"{stand_in.base_url}#stand-in")))
