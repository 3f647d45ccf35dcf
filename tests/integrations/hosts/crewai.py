"""CrewAI: a crew of one agent, with one kickoff per turn, in a thread as in CrewAI's own `kickoff_async`."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from anyio import to_thread
from crewai.agent import Agent
from crewai.crew import Crew
from crewai.llms.base_llm import BaseLLM
from crewai.task import Task
from crewai.tools import tool
from pydantic import Field

from factmem.agent import install
from factmem.agent.plugin import AgentMemory
from tests.integrations.remembering import ANSWER, Manner, Turn

CALL = "Thought: I need to look.\nAction: look_up\nAction Input: {}"


class Scripted(BaseLLM):
    """A model that answers from a list, then with ANSWER, and records its requests."""

    script: list[str] = Field(default_factory=list)
    shown: list[str] = Field(default_factory=list)

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        self.shown.append(messages if isinstance(messages, str) else "\n".join(said["content"] for said in messages))
        return self.script.pop(0) if self.script else f"Thought: I know.\nFinal Answer: {ANSWER}"

    async def acall(self, messages: Any, *args: Any, **options: Any) -> str:
        return self.call(messages)


def crew_of(model: Scripted, said: str, *tools: Any, **settings: Any) -> Crew:
    """Return a crew whose one agent has one task."""
    clerk = Agent(role="clerk", goal="help", backstory="You are brief.", llm=model, tools=list(tools))
    task = Task(description=said, expected_output="an answer", agent=clerk)
    return Crew(agents=[clerk], tasks=[task], **settings)


def looking_up(answers: list[str]) -> Any:
    """Return a tool that answers from a list."""

    @tool("look_up")
    def look_up() -> str:
        """Look something up."""
        return answers.pop()

    return look_up


MANNERS: Final = (Manner.ASYNC, Manner.STREAMING, Manner.SYNC)


async def converse(memory: AgentMemory, turns: Sequence[Turn], manner: Manner) -> list[str]:
    """See `tests.integrations.remembering`."""
    model = Scripted(model="scripted")
    shown = []
    for turn in turns:
        answers = [] if turn.tool_result is None else [turn.tool_result]

        if answers:
            model.script = [CALL]
        made = crew_of(model, turn.said, looking_up(answers), stream=manner == Manner.STREAMING)
        await _kicked_off(install(memory, into=made), turn, manner)
        shown.append(model.shown[-1])
    return shown


async def _kicked_off(crew: Crew, turn: Turn, manner: Manner) -> None:
    inputs = {"user_id": turn.user_id, "session_id": turn.session_id}
    match manner:
        case Manner.ASYNC:
            await crew.kickoff_async(inputs=inputs)
        case Manner.STREAMING:
            output: Any = await crew.kickoff_async(inputs=inputs)
            async for _ in output:
                pass
            assert ANSWER in str(output.result)
        case Manner.SYNC:
            await to_thread.run_sync(lambda: crew.kickoff(inputs=inputs))
