"""A profile: a class whose fields are concepts, filled with known facts.

Without a model, a stand-in on 127.0.0.1 gives the answer below; FACTMEM_MODEL names a real one. The same class works on
the command line:

    factmem --model … ingest talk.json --concepts MODULE:Guest --subject user
    factmem profile MODULE:Guest --subject user
"""

import datetime as dt
import os

import anyio
import attrs

from factmem import LanguageModel, Memory, MemorySubject, Message, language_model
from factmem.abc import DetectionRequest
from factmem.errors import IncompleteProfileError
from factmem.memory import concepts_of
from factmem.testing.chat_answers import answering, confirming
from factmem.testing.openai_server import LoopbackOpenAIServer

USER = MemorySubject("user", "The person whom we talk with", priority_level=1)


@attrs.frozen
class Guest:
    name: str = attrs.field(metadata={"description": "What to call the guest"})
    arrival: dt.date = attrs.field(metadata={"description": "The day on which the guest arrives"})
    nights: int = attrs.field(metadata={"description": "For how many nights the guest stays"})
    allergies: frozenset[str] = attrs.field(metadata={"description": "What the guest must not eat"})
    floor: int | None = attrs.field(default=None, metadata={"description": "The floor that the guest would like"})


ANSWER = {
    "name": [],
    "arrival": [{"quote": "arrive on the ninth of May", "message": 1, "value": "2026-05-09"}],
    "nights": [{"quote": "stay three nights", "message": 1, "value": 3}],
    "allergies": [{"quote": "allergic to nuts and shellfish", "message": 1, "values": ["nuts", "shellfish"]}],
    "floor": [],
}


async def main(model: LanguageModel) -> None:
    async with Memory("memory:", model=model) as memory:
        said = Message(
            content="I arrive on the ninth of May and stay three nights. I am allergic to nuts and shellfish.",
            timestamp=dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC),
        )
        await memory.remember(said, subject=USER, looking_for=DetectionRequest(concepts=concepts_of(Guest)))
        try:
            await memory.profile(Guest, subject=USER)
        except IncompleteProfileError as error:
            print("to ask for:", *error.missing)
        partial = await memory.profile(Guest, subject=USER, partial=True)
        print("known:", ", ".join(sorted(partial.known)))

        await memory.save_profile(Guest("Maya", dt.date(2026, 5, 9), 4, frozenset()), subject=USER)
        guest = await memory.profile(Guest, subject=USER)  # an empty set retracts nothing
        print(f"{guest.name} comes on a {guest.arrival:%A}, stays {guest.nights} nights, no {sorted(guest.allergies)}")


with LoopbackOpenAIServer(confirming(answering(ANSWER))) as stand_in:
    anyio.run(main, language_model(os.environ.get("FACTMEM_MODEL", f"{stand_in.base_url}#stand-in")))
