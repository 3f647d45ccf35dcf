"""CrewAI: a crew that remembers, and CrewAI's own memory stored in factmem. It needs an environment of its own."""

# pyright: reportMissingImports=false

import os
from typing import Any

os.environ.update({"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "CREWAI_TESTING": "true"})

from crewai import Agent, BaseLLM, Crew, Memory, Task

from factmem import AgentMemory, AgentMemoryConfig
from factmem.agent import install
from factmem.integrations.crewai import FactMemStorage


class Parrot(BaseLLM):
    """A model for this example that repeats its memories. Use ``llm="gpt-…"`` instead."""

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        reminded = [line for line in messages[-1]["content"].splitlines() if line.startswith("<statement")]
        return f"Thought: I know.\nFinal Answer: I was reminded of {reminded or 'nothing'}"

    def get_input_tokens_count(self, messages: Any, *args: Any, **options: Any) -> int:
        return sum(len(message["content"]) for message in messages) // 4


memory = AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="clerk"))
clerk = Agent(role="clerk", goal="help", backstory="You know everybody.", llm=Parrot(model="parrot"))
task = Task(description="{question}", expected_output="an answer", agent=clerk)
crew = install(memory, into=Crew(agents=[clerk], tasks=[task]))
for user, question in (
    ("alice", "My gate code is blue."),
    ("alice", "What is my gate code?"),
    ("bob", "What is my gate code?"),
):
    print(f"{user}:", crew.kickoff(inputs={"user_id": user, "question": question}))

storage = FactMemStorage("sqlite-vec:crew.db")  # Crew(memory=Memory(storage=storage, embedder=storage.embed, llm=…))
own = Memory(storage=storage, embedder=storage.embed, llm=Parrot(model="parrot"))
own.remember("We chose Postgres.", scope="/project/a", categories=["decision"], importance=0.9)
own.remember("We chose Oracle.", scope="/project/ab", categories=["decision"], importance=0.9)
for match in own.recall("What did we choose?", scope="/project/a", depth="shallow"):
    print(f"{match.record.scope}: {match.record.content}")
storage.memory.close()
memory.close()
