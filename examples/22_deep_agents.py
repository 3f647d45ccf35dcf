"""Deep Agents: known facts as files under /memories/, which the agent edits with its usual tools."""

from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from factmem import AgentMemory, AgentMemoryConfig, Concept
from factmem.agent import install
from factmem.integrations.deepagents import AgentsMdMiddleware, FactMemBackend

CITY = Concept.single("city", "Where the user lives")
ALICE: Any = {"user_id": "alice"}
OVERVIEW = "/memories/AGENTS.md"


class Scripted(GenericFakeChatModel):
    """A model for this example with scripted answers. Use ``init_chat_model("…")`` instead."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self


def saying(*answers: AIMessage | str) -> Scripted:
    return Scripted(messages=iter(answers))


def editing(old: str, new: str) -> AIMessage:
    arguments = {"file_path": OVERVIEW, "old_string": old, "new_string": new}
    return AIMessage("", tool_calls=[{"name": "edit_file", "args": arguments, "id": "1"}])


def shown(memory: AgentMemory, user: str) -> None:
    """Print the bullets of a user's overview."""
    with memory.run(user):
        found = FactMemBackend(memory).grep("- ", path="/AGENTS.md")
    print(f"{user}:", *(match["text"] for match in found.matches or []), sep="\n  ")


config = AgentMemoryConfig(store="facts.db", agent_name="clerk", concepts=(CITY,))
memory = AgentMemory(config)

# Known facts are in the agent's prompt, and its messages are read for new ones.
make_agent = install(memory, into=create_deep_agent)
make_agent(saying("Noted.")).invoke({"messages": [HumanMessage("I like trains.")]}, context=ALICE)
shown(memory, "alice")

# Known facts as files: a middleware shows them to the agent, and an edit becomes typed changes.
backend = CompositeBackend(default=StateBackend(), routes={"/memories/": FactMemBackend(memory)})
files = AgentsMdMiddleware([OVERVIEW], backend=backend)
heading = "### user:alice in /agent/clerk\n"
for old, new in ((heading, f"{heading}\n- **city**: Rome\n"), ("Rome", "Oslo")):
    model = saying(editing(old, new), "Done.")
    create_deep_agent(model, backend=backend, middleware=[files]).invoke(
        {"messages": [HumanMessage("Remember where I live.")]}, context=ALICE
    )
shown(memory, "alice")
shown(memory, "bob")
memory.close()
