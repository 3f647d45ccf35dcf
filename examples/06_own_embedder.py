"""An embedder of your own: any function that turns texts into vectors of one length.

A store is bound to the embedder of its vectors, and refuses another one until `reembed`.
"""

from collections.abc import Sequence

import anyio

from factmem import InMemoryProvider, Memory
from factmem.errors import EmbedderMismatchError
from factmem.recall import CallableEmbedder

TOPICS = {"travel": ("flight", "train", "hotel"), "food": ("lunch", "octopus", "tart"), "money": ("budget", "invoice")}


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return the counts of each topic's words: a toy; a real one would call a model."""
    return [
        [0.1, *(float(sum(text.lower().count(word) for word in words)) for words in TOPICS.values())] for text in texts
    ]


async def main() -> None:
    store = InMemoryProvider()
    mine = CallableEmbedder(embed, name="three-topics", dimension=1 + len(TOPICS))
    async with Memory(store, embedder=mine) as memory:
        await memory.remember("The train to Porto leaves at nine.")
        await memory.remember("For lunch there is octopus.")
        await memory.remember("The budget is used up.")
        for match in await memory.recall("is there a hotel?", limit=1, lexical=False):
            print(f"closest in meaning: {match.record.value}  (cosine {match.parts.cosine:.2f})")

    async with Memory(store) as memory:  # with the default embedder
        try:
            await memory.recall("is there a hotel?")
        except EmbedderMismatchError as error:
            print("refused:", error)
        print(await memory.admin.reembed(), "records embedded anew")
        for match in await memory.recall("is there a hotel?", limit=1, lexical=False):
            print(f"closest in meaning: {match.record.value}  (cosine {match.parts.cosine:.2f})")


anyio.run(main)
