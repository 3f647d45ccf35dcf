"""LangGraph: nodes that load and save, and a store that lasts, searches and keeps a history."""

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph

from factmem import AgentMemory, AgentMemoryConfig
from factmem.agent import load_all_facts_from_memory, save_to_memory_auto_detect_facts
from factmem.integrations.langgraph import ADDED_MESSAGES, FactMemStore


def answer(state: MessagesState) -> dict[str, Any]:
    """Return a reply with the messages shown; a real graph would use ``init_chat_model("…")``."""
    shown = " | ".join(str(message.text) for message in state["messages"])
    return {"messages": [AIMessage(f"I see: {shown}")]}


async def talk(memory: AgentMemory) -> None:
    """Run two threads of one user: the second one knows the facts of the first."""
    builder = StateGraph(MessagesState)
    builder.add_node("load", load_all_facts_from_memory(memory, state=ADDED_MESSAGES))
    builder.add_node("answer", answer)
    builder.add_node("save", save_to_memory_auto_detect_facts(memory))
    for before, after in ((START, "load"), ("load", "answer"), ("answer", "save"), ("save", END)):
        builder.add_edge(before, after)
    graph = builder.compile()
    for thread, said in (("monday", "I moved to Lisbon."), ("tuesday", "Where do I live?")):
        config: RunnableConfig = {"configurable": {"user_id": "alice", "thread_id": thread}}
        result = await graph.ainvoke({"messages": [HumanMessage(said)]}, config)
        print(result["messages"][-1].text)


def keep(address: str) -> None:
    """Store items in LangGraph's interface; langmem's tools and ``create_agent(store=…)`` accept the store as well."""
    with FactMemStore(address) as store:
        store.put(("notes", "alice"), "drink", {"likes": "green tea"})
        store.put(("notes", "alice"), "visit", {"on": "Friday"}, ttl=60 * 24)
    with FactMemStore(address) as store:
        for item in store.search(("notes",), query="something to drink", limit=1):
            print(item.namespace, item.key, item.value)


async def main() -> None:
    async with AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="clerk")) as memory:
        await talk(memory)


asyncio.run(main())
keep("facts.db")
