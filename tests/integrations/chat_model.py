"""LangChain's own fake chat model, extended by tools and a record of the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import Field


class NotingModel(GenericFakeChatModel):
    """A model that returns scripted answers and records each request."""

    asked: list[list[BaseMessage]] = Field(default_factory=list)
    bound: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        self.bound = list(tools)
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.asked.append(messages)
        return super()._generate(messages, stop, run_manager, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        """Yield the answer as one chunk; the base class leaves out calls of tools."""
        (generation,) = self._generate(messages, stop, run_manager, **kwargs).generations
        message = generation.message
        calls = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=place)
            for place, call in enumerate(message.tool_calls if isinstance(message, AIMessage) else ())
        ]
        chunk = AIMessageChunk(content=str(message.text), tool_call_chunks=calls)
        yield ChatGenerationChunk(message=chunk)

    def shown(self) -> str:
        """Return all texts of the last request."""
        return "\n".join(str(message.text) for message in self.asked[-1])


def calling(name: str, id: str = "1", **arguments: Any) -> AIMessage:
    """Return an answer that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": id}])


def model(*answers: AIMessage | str) -> NotingModel:
    """Return a model that gives these answers, and ``Very well.`` afterwards."""
    return answering(list(answers), after="Very well.")


def answering(answers: list[AIMessage | str], after: str | None = None) -> NotingModel:
    """Return a model that gives the answers of a list, which may be extended meanwhile.

    Args:
        answers: the answers, which are removed from the list.
        after: the answer once the list is empty.
    """

    def said() -> Iterator[AIMessage | str]:
        while answers or after is not None:
            yield answers.pop(0) if answers else after or ""

    return NotingModel(messages=said())
