"""Lessons: people's corrections of an agent's outputs, kept and applied to the next outputs."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar, overload

import attrs
from anyio import to_thread

from factmem.abc.model import LanguageModel
from factmem.agent.config import NOBODY, RunIdentity
from factmem.agent.plugin import AgentMemory
from factmem.agent.rendering import MemoryBlock, fitted, in_force
from factmem.agent.run import MemoryRun
from factmem.details import Evidence, FactDetails, Origin
from factmem.detection.extractions import says_nothing
from factmem.detection.flags import flags_in
from factmem.detection.model_questions import inquire
from factmem.detection.quotes import QuotableText
from factmem.detection.redaction import redact
from factmem.detection.statements import says_something
from factmem.errors import CapabilityError, InvalidDataError, ModelError
from factmem.event_loops import is_async
from factmem.facts import Concept, MultipleFacts
from factmem.languages import Span
from factmem.legal_names import checked_name
from factmem.llm.host_models import ForeignModel, as_language_model
from factmem.llm.messages import document, element
from factmem.memory.facade import Memory
from factmem.memory.taint import Heard, Listener
from factmem.records import AssertionState, FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import check_whole

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("factmem")


@attrs.frozen
class _Distilled:
    """A lesson in a person's words about an output.

    Attributes:
        text: The lesson.
        span: The words that it comes from, as offsets in the feedback.
    """

    text: str = attrs.field(repr=False)
    span: Span


async def _distilled(model: LanguageModel, output: str, feedback: str) -> list[_Distilled]:
    """Return the lessons in what a person said about an output, with one call of a model; none in mere praise.

    A lesson without a quote of the feedback is dropped; see `_grounded` for the others. If all are dropped, the
    feedback itself is the lesson: a model that errs loses no correction.

    Args:
        model: The language model.
        output: The output without secrets; what exceeds half of a question is cut.
        feedback: The person's words without secrets.

    Raises:
        ModelError: The model failed.
    """
    room = model.max_chars // 2
    content = document(element("output", output[:room]), element("feedback", feedback[:room]))
    (answer,) = await inquire(model, "distil", content)
    said = QuotableText(feedback)
    found = [
        (item["lesson"], said.find(item["quote"])) for item in answer["lessons"] if not says_nothing(item["lesson"])
    ]
    lessons = [_Distilled(text, span) for text, span in found if span is not None]
    if found and not lessons:
        return [_Distilled(feedback, (0, len(feedback)))]
    return await to_thread.run_sync(_grounded, lessons, output, feedback)


def _grounded(lessons: Iterable[_Distilled], output: str, feedback: str) -> list[_Distilled]:
    """Return lessons in which nothing is the output's alone, each once.

    One that repeats the output where the person did not becomes what the person said: the output may hold anything, and
    nobody vouches for it.

    Args:
        lessons: The lessons that a model found.
        output: The output without secrets.
        feedback: The person's words without secrets.
    """
    listener = Listener([Heard(output, Origin.ASSISTANT, trusted=False), Heard(feedback, Origin.USER, trusted=True)])
    found: dict[str, _Distilled] = {}
    for lesson in lessons:
        text = " ".join(lesson.text.split())
        if listener.repeated_in(text) is not None:
            text = feedback[slice(*lesson.span)]
        found.setdefault(text.casefold(), _Distilled(text, lesson.span))
    return list(found.values())


async def _rewritten(model: LanguageModel, output: str, lessons: Sequence[str]) -> str:
    """Return an output with lessons applied, with one call of a model; the output itself if it is too long for one.

    Args:
        model: The language model.
        output: The output.
        lessons: The lessons, newest first.

    Raises:
        ModelError: The model failed.
    """
    content = document(*(element("lesson", text) for text in lessons), element("output", output))
    if len(content) > model.max_chars:
        return output
    (answer,) = await inquire(model, "rewrite", content)
    found: str = answer["output"]
    return found if found.strip() else output


LESSON: Final = Concept.multiple("lesson", "A rule for later outputs, from what a person said about an earlier one")
"""The concept of lessons."""

TASK: Final = MemorySubject("task", "the work that an agent's output is for", priority_level=2)
"""The subject of lessons, narrowed to one task: ``TASK.individual("draft")``."""

Reviewer = Callable[[str], Awaitable[str]]
"""Function that shows an output to a person, and returns their feedback; empty if there is none."""

_HEADING: Final = (
    "What people corrected in earlier outputs of this task, newest first. Follow it where it applies; what the user"
    " says now goes first."
)
_MOST: Final = 200
"""Maximum number of lessons of one task that are considered, newest first."""
_LONGEST_OUTPUT: Final = 500
"""Maximum length of the output in a lesson's evidence, in characters; its beginning is kept."""
_HARMLESS: Final = frozenset({"standing order"})
"""Flags that a followed lesson may have, because a rule for later is always an order."""

_blocks: ContextVar[Mapping[Lessons, MemoryBlock]] = ContextVar("factmem_lessons", default=MappingProxyType({}))
"""The lessons for the current call, by their collection, because decorated functions may be nested."""

_NOT_LOADED, _NOT_APPLIED = "no lessons could be loaded", "lessons could not be applied"
_NOT_SAVED: Final = "no lesson could be saved"


@attrs.frozen(kw_only=True)
class Reviewed:
    """An output that a person has seen.

    Attributes:
        output: The output, as the person saw it.
        feedback: The person's feedback; empty if there is none.
        lessons: The lessons learnt from it.
    """

    output: str = attrs.field(repr=False)
    feedback: str = attrs.field(default="", repr=False)
    lessons: tuple[FactRecord[str], ...] = attrs.field(default=(), repr=False)


class Lessons:
    """The lessons of an agent: a correction of one output is applied to the next outputs of the same task.

        lessons = Lessons(memory)

        @lessons.reviewed(by=ask_a_person)
        async def draft(topic: str) -> str:
            return await model(f"{lessons.block.text} Write to our customers about {topic}.")

        reviewed = await draft("the new prices")

    The decorator combines three methods, which fit into any loop: `recall` before an output is made, `apply` to improve
    an output, and `learn` from a person's feedback.

    Each lesson is a record of the concept `LESSON` about a task (`TASK`), in a separate scope and with its own source,
    so memory blocks do not show it. List, update, retract and forget lessons like other records:
    ``memory.list_records(concepts=[LESSON])``. The origin is the person's words. The output is only evidence: its words
    alone never become a lesson. A lesson whose wording is flagged as an attack is kept, but not applied.

    With a language model, feedback is distilled: praise teaches nothing, and one remark may teach several lessons.
    Without a model, or if the model fails, the person's words are the lesson. They are on disk before the model is
    asked.

    Args:
        memory: The agent's memory. A run that names a user sees the lessons of this user and shared ones.
        scope: Scope of the lessons, one of the agent's (default: ``lessons`` below the scope of its facts).
        shared: Whether lessons are for every user. Otherwise a lesson is private to the user of its run, if the run
            names one. The evidence of a shared lesson names no user, and includes no output made for a user.
        model: Language model, in any form that `Memory` takes (default: `AgentMemoryConfig.model`).
        source: Source of the lessons. Only lessons of this source are applied.
        limit: Maximum number of lessons applied at a time; the closest to the work at hand are chosen.

    Raises:
        InvalidDataError: The scope is not one of the agent's, or the limit is out of range.
    """

    def __init__(
        self,
        memory: AgentMemory,
        *,
        scope: MemoryScope | str | None = None,
        shared: bool = False,
        model: LanguageModel | ForeignModel | str | None = None,
        source: str = "feedback",
        limit: int = 20,
    ) -> None:
        config = memory.config
        check_whole(limit, "limit", least=1)
        self._memory = memory
        self.scope: Final = config.home / "lessons" if scope is None else config.scope_of(scope)
        self.shared: Final = shared
        self.source: Final = source
        self._limit = limit
        self._model = config.model if model is None else as_language_model(model)

    @property
    def block(self) -> MemoryBlock:
        """The lessons for the current call of a `reviewed` function; empty outside of such a call."""
        return _blocks.get().get(self, MemoryBlock())

    async def recall(self, task: str, about: str = "", *, identity: RunIdentity = NOBODY) -> MemoryBlock:
        """Return the lessons of a task, rendered for a prompt.

        A lesson that a newer one about the same overtakes is left out.

        Args:
            task: The name of the task.
            about: The work at hand; if there are too many lessons, the closest ones are chosen.
            identity: The identity of the run; the identity of `AgentMemory.run` takes precedence.

        Raises:
            InvalidNameError: The name of the task is not legal.
            MissingUserError: The run names no user, the memory separates users, and lessons are not shared.
            FactMemError: Nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        return await self._recall(self._memory.for_run(identity), task, about)

    def recall_blocking(self, task: str, about: str = "", *, identity: RunIdentity = NOBODY) -> MemoryBlock:
        """Recall like `recall`, without an event loop.

        Raises:
            CapabilityError: The program opened the memory, in an event loop.
        """
        run = self._memory.for_run(identity)
        return run.use_blocking(
            lambda run: self._recall(run, task, about), _NOT_LOADED, run.config.loading.on_failure, MemoryBlock()
        )

    async def _recall(self, run: MemoryRun, task: str, about: str) -> MemoryBlock:
        return await self._attempted(
            run, lambda memory: self._recalled(run, memory, task, about), _NOT_LOADED, MemoryBlock()
        )

    async def apply(self, task: str, output: str, *, identity: RunIdentity = NOBODY) -> str:
        """Return an output with the lessons of its task applied by the language model.

        An output without lessons, or with secrets, which are never sent to a model, is returned unchanged.

        Args:
            task: The name of the task.
            output: The output.
            identity: The identity of the run.

        Raises:
            CapabilityError: There is no language model.
            FactMemError: See `recall`; the model's failure is treated in the same way.
        """
        return await self._apply(self._memory.for_run(identity), task, output)

    def _apply_blocking(self, task: str, output: str) -> str:
        run = self._memory.for_run()
        return run.use_blocking(
            lambda run: self._apply(run, task, output), _NOT_APPLIED, run.config.loading.on_failure, output
        )

    async def _apply(self, run: MemoryRun, task: str, output: str) -> str:
        if (model := self._model) is None:
            raise CapabilityError(
                "there is no language model to rewrite an output: give one to Lessons(model=...) or to the agent's "
                "memory, or put the text of recall() into the prompt that makes the output"
            )

        async def apply(memory: Memory) -> str:
            block = await self._recalled(run, memory, task, output)
            if not block or (await to_thread.run_sync(redact, output)).findings:
                return output
            return await _rewritten(model, output, [str(record.value) for record in block.records])

        return await self._attempted(run, apply, _NOT_APPLIED, output)

    async def learn(
        self,
        task: str,
        output: str,
        feedback: str,
        *,
        taught: Sequence[str] | None = None,
        identity: RunIdentity = NOBODY,
    ) -> tuple[FactRecord[str], ...]:
        """Keep what a person said about an output as lessons, and return them. They are on disk when this returns.

        Args:
            task: The name of the task.
            output: The output that the person saw.
            feedback: The person's feedback; nothing is learnt from an empty text.
            taught: The lessons in the feedback, if the program or its framework found them; the model is then not
                asked.
            identity: The identity of the run.

        Raises:
            InvalidNameError: The name of the task is not legal.
            MissingUserError: The run names no user, the memory separates users, and lessons are not shared.
            CapabilityError: The provider cannot keep lessons.
            FactMemError: Nothing could be saved, and the policy is `FailurePolicy.RAISE`.
        """
        return await self._learn(self._memory.for_run(identity), task, output, feedback, taught)

    def learn_blocking(
        self,
        task: str,
        output: str,
        feedback: str,
        *,
        taught: Sequence[str] | None = None,
        identity: RunIdentity = NOBODY,
    ) -> tuple[FactRecord[str], ...]:
        """Learn like `learn`, without an event loop.

        Raises:
            CapabilityError: The program opened the memory, in an event loop.
        """
        run = self._memory.for_run(identity)
        return run.use_blocking(
            lambda run: self._learn(run, task, output, feedback, taught),
            _NOT_SAVED,
            run.config.saving.on_failure,
            (),
        )

    async def _learn(
        self, run: MemoryRun, task: str, output: str, feedback: str, taught: Sequence[str] | None
    ) -> tuple[FactRecord[str], ...]:
        return await self._attempted(
            run,
            lambda memory: self._learnt(run, memory, task, output, feedback, taught),
            _NOT_SAVED,
            (),
            loads=False,
        )

    @overload
    def reviewed(
        self, *, by: Reviewer, task: str | None = None, rewrite: bool = False
    ) -> Callable[[Callable[P, Awaitable[str]]], Callable[P, Awaitable[Reviewed]]]: ...

    @overload
    def reviewed(
        self, *, by: Callable[[str], str], task: str | None = None, rewrite: bool = False
    ) -> Callable[[Callable[P, str]], Callable[P, Reviewed]]: ...

    def reviewed(
        self, *, by: Callable[[str], Any], task: str | None = None, rewrite: bool = False
    ) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
        """Decorate a function that makes an output, so that a person sees it and the agent learns.

        The function reads the lessons for its call from `block`. Texts among its arguments select the closest lessons.
        A plain function, with a plain `by`, needs a memory with its own thread, as made from every address and
        provider.

        Args:
            by: Function that shows the output to a person, and returns their feedback; async if the decorated function
                is.
            task: The name of the task (default: the name of the function).
            rewrite: Whether the language model also applies the lessons to the output, for a function that does not
                read `block`.

        Raises:
            CapabilityError: Outputs are to be rewritten, and there is no language model.
            InvalidDataError: Only one of the function and `by` is async.
        """
        if rewrite and self._model is None:
            raise CapabilityError("there is no language model to rewrite outputs: give one to Lessons(model=...)")

        def decorate(function: Callable[P, Any]) -> Callable[P, Any]:
            name = str(task or getattr(function, "__name__", type(function).__name__))
            if is_async(function) != is_async(by):
                kinds = ("an async", "a plain") if is_async(function) else ("a plain", "an async")
                raise InvalidDataError(
                    f"{name} is {kinds[0]} function, and by= is {kinds[1]} one: let both be async, or neither",
                    path="$.by",
                )

            @functools.wraps(function)
            async def reviewing(*args: P.args, **kwargs: P.kwargs) -> Reviewed:
                with self._shown(await self.recall(name, _texts_in(args, kwargs))):
                    output = await function(*args, **kwargs)
                if rewrite:
                    output = await self.apply(name, output)
                feedback = await by(output)
                lessons = await self.learn(name, output, feedback)
                return Reviewed(output=output, feedback=feedback, lessons=lessons)

            @functools.wraps(function)
            def reviewing_blocking(*args: P.args, **kwargs: P.kwargs) -> Reviewed:
                with self._shown(self.recall_blocking(name, _texts_in(args, kwargs))):
                    output = function(*args, **kwargs)
                if rewrite:
                    output = self._apply_blocking(name, output)
                feedback = by(output)
                lessons = self.learn_blocking(name, output, feedback)
                return Reviewed(output=output, feedback=feedback, lessons=lessons)

            return reviewing if is_async(function) else reviewing_blocking

        return decorate

    @contextlib.contextmanager
    def _shown(self, block: MemoryBlock) -> Iterator[None]:
        """Make lessons those of `block`."""
        token = _blocks.set({**_blocks.get(), self: block})
        try:
            yield
        finally:
            _blocks.reset(token)

    async def _attempted(
        self, run: MemoryRun, work: Callable[[Memory], Awaitable[T]], what: str, otherwise: T, *, loads: bool = True
    ) -> T:
        """Run a function on the memory, after a check of the user; see `MemoryRun.attempt`.

        Args:
            run: The run.
            work: The function.
            what: What could not be done after an error.
            otherwise: The result after an error that was logged, and of a run that uses no lessons.
            loads: Whether the function loads, not saves.
        """
        wanted, settings = (run.identity.load, run.config.loading) if loads else (run.identity.save, run.config.saving)
        if not wanted or run.config.keeps_nothing:
            return otherwise
        if not self.shared:
            run.check_user()
        return await run.attempt(work, what, settings.on_failure, otherwise)

    def _view(self, run: MemoryRun, memory: Memory) -> Memory:
        seen = memory if run.identity.user_id is None else memory.view(viewer=run.identity.user_id)
        return seen.scope(self.scope)

    async def _recalled(self, run: MemoryRun, memory: Memory, task: str, about: str) -> MemoryBlock:
        view, subject = self._view(run, memory).view(reviewed=True), _task(task)
        records = await view.list_records(limit=_MOST, concepts=[LESSON], subjects=[subject], sources=[self.source])
        lessons = in_force(filter(_is_applied, records), _wording)
        if len(lessons) > self._limit and about.strip():
            ids = [record.id for record in lessons]
            matches = await view.recall(about, limit=self._limit, record_ids=ids, settings=run.config.recall)
            closest = {match.record.id for match in matches}
            lessons = [record for record in lessons if record.id in closest]
        loading = run.config.loading
        return fitted(lessons[: self._limit], _line, _block, loading.budget, loading.count_tokens)

    async def _learnt(
        self, run: MemoryRun, memory: Memory, task: str, output: str, feedback: str, taught: Sequence[str] | None
    ) -> tuple[FactRecord[str], ...]:
        given = (feedback, output, *(taught or ()))
        said, shown, *texts = await to_thread.run_sync(lambda: [redact(text).text.strip() for text in given])
        if not says_something(said):
            return ()
        view, subject = self._view(run, memory), _task(task)

        async def keep(lesson: _Distilled) -> FactRecord[str]:
            (record,) = await view.save(
                MultipleFacts(LESSON, (lesson.text,)),
                subject=subject,
                scope=self.scope,
                details=self._details(run, shown, said, lesson.span),
                private=not self.shared and run.identity.user_id is not None,
            )
            return record

        whole = (0, len(said))
        verbatim = await keep(_Distilled(said, whole))
        try:
            if taught is not None:
                lessons_in = [_Distilled(text, whole) for text in texts if says_something(text)]
                found = await to_thread.run_sync(_grounded, lessons_in, shown, said)
            elif self._model is not None:
                found = await _distilled(self._model, shown, said)
            else:
                return (verbatim,)
        except ModelError as error:
            _log.warning("feedback is kept as it was said, since the model failed: %s", type(error).__name__)
            return (verbatim,)
        lessons = {record.id: record for record in [await keep(lesson) for lesson in found]}
        if verbatim.id not in lessons and verbatim.state is AssertionState.ACTIVE:
            await view.retract(verbatim.id, reason="distilled")
        return tuple(lessons.values())

    def _details(self, run: MemoryRun, output: str, feedback: str, span: Span) -> FactDetails:
        user, (start, end) = run.identity.user_id, span
        everyones = self.shared and user is not None
        speaker = None if everyones else user
        evidence = [Evidence(quote=feedback[start:end], role="user", speaker=speaker, start=start, end=end)]
        if output.strip() and not everyones:  # what was written for one user may tell others about them
            name = run.config.agent_name
            evidence.append(Evidence(quote=output[:_LONGEST_OUTPUT], role="assistant", speaker=name))
        return FactDetails(origin=Origin.USER, source=self.source, evidence=tuple(evidence))


def _task(name: str) -> MemorySubject:
    return TASK.individual(checked_name(name, what="the name of a task"))


def _texts_in(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    return "\n".join(text for text in (*args, *kwargs.values()) if isinstance(text, str))


def _wording(record: FactRecord[Any]) -> str:
    return str(record.value)


def _is_applied(record: FactRecord[Any]) -> bool:
    """Return whether a lesson is a person's, and worded without a flag other than ``standing order``."""
    return record.trust >= Origin.USER.rank and _HARMLESS.issuperset(flags_in(_wording(record)))


def _line(lesson: FactRecord[Any]) -> str:
    return element("lesson", _wording(lesson), said=f"{lesson.timestamp:%Y-%m-%d}")


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["<lessons>", _HEADING, *lines, "</lessons>"])
