"""LangChain's own fake chat model, which also takes tools and notes what it was shown."""

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
    """Answers what it is told to, and notes each request."""

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
        """Say it in one piece; what this derives from leaves out calls of tools."""
        (generation,) = self._generate(messages, stop, run_manager, **kwargs).generations
        message = generation.message
        calls = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=place)
            for place, call in enumerate(message.tool_calls if isinstance(message, AIMessage) else ())
        ]
        chunk = AIMessageChunk(content=str(message.text), tool_call_chunks=calls)
        yield ChatGenerationChunk(message=chunk)

    def shown(self) -> str:
        """All texts of the last request."""
        return "\n".join(str(message.text) for message in self.asked[-1])


def calling(name: str, id: str = "1", **arguments: Any) -> AIMessage:
    """An answer that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": id}])


def model(*answers: AIMessage | str) -> NotingModel:
    """A model that gives these answers, and then says ``Very well.`` for ever."""
    return answering(list(answers), after="Very well.")


def answering(answers: list[AIMessage | str], after: str | None = None) -> NotingModel:
    """A model that gives the answers in a list, to which more may be added meanwhile.

    Args:
        answers: the answers, which are taken out of the list.
        after: what it says when there is none left.
    """

    def said() -> Iterator[AIMessage | str]:
        while answers or after is not None:
            yield answers.pop(0) if answers else after or ""

    return NotingModel(messages=said())
