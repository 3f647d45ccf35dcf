"""Deep recall with a model behind a socket and the real clients: its benefit, and the cost of its faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from factmem import STATEMENT, Memory, MultipleFacts
from factmem.abc.question_analyst import Complexity, Gap
from factmem.llm import InstructorModel
from factmem.recall.results import DeepRecall
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.memory.scripted_analyst import ALWAYS, NOW, deeply, values

QUESTION = "Where did Ana and Ben work when the bridge was built?"
SAID = {
    "Orla's firm built the bridge.": "/product/bridge",
    "Ana worked at the <mill>.": "/product/other",
    "Ben baked bread.": "/product/other",
    "Cy likes tea.": "/product/other",
}
APART = {
    "questions": [{"text": "Where did Ana work?", "keyword": None}, {"text": "What did Ben sell?", "keyword": None}],
    "scopes": ["/product/bridge", "/product/moon"],
    "since": None,
    "until": None,
    "complexity": "complex",
}
MISSING = {
    "gaps": [{"missing": "the tea", "question": "Who likes tea?"}, {"missing": "hail", "question": "Did it hail?"}]
}


def answering(**answers: dict[str, Any] | Answer) -> Callable[[str, dict[str, Any]], Answer]:
    """Answer according to the requested type."""

    def respond(path: str, request: dict[str, Any]) -> Answer:
        answer = answers[request["response_format"]["json_schema"]["name"]]
        return answer if isinstance(answer, Answer) else chat_answer(answer)

    return respond


async def asked(server: LoopbackOpenAIServer, *, strict: bool = False) -> tuple[DeepRecall, list[Any]]:
    """Return the result of deep recall with a server's model, and that of plain recall."""
    model = InstructorModel("stand-in", base_url=server.base_url, retries=0, tries=2)
    deep = attrs.evolve(ALWAYS, added_share=0.5)  # one of three places
    async with Memory("memory:", model=model, embedder=HashEmbedder(), deep=deep) as memory:
        for text, scope in SAID.items():
            await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=NOW), scope=scope)
        found = await deeply(memory, QUESTION, limit=3, strict=strict)
        return found, values(await memory.recall(QUESTION, limit=3))


async def test_a_question_is_taken_apart_and_explored() -> None:
    with LoopbackOpenAIServer(answering(QuestionAnswer=APART, GapsAnswer=MISSING)) as server:
        found, _ = await asked(server)
    assert found.questions == (QUESTION, "Where did Ana work?", "What did Ben sell?", "Who likes tea?", "Did it hail?")
    assert (found.scopes, found.complexity, found.rounds) == (("/product/bridge",), Complexity.COMPLEX, 1)
    assert {"Ana worked at the <mill>.", "Cy likes tea."} < set(values(found.matches))
    assert found.gaps == (Gap(missing="hail", question="Did it hail?"),)
    assert (found.calls, found.tokens, found.failure) == (2, 4, None)
    first, second = (str(request["messages"]) for _, request in server.requests)
    assert "/product/other" in first
    assert "Ana worked at the &lt;mill&gt;." in second
    assert "Ana worked" not in first
