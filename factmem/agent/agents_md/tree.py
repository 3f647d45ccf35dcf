"""The facts visible to a run as a tree of files: one per subject and scope, and an overview of the best facts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import attrs
from anyio import to_thread

from factmem.agent.agents_md.comments import visible
from factmem.agent.agents_md.page import LONGEST_BULLET, Edits, Page, applied, bullets_in, one_line, page_of, reconciled
from factmem.agent.rendering import belongs_in_file, rendered
from factmem.agent.run import MemoryRun
from factmem.changes import Change
from factmem.errors import InvalidDataError, ReadOnlyError
from factmem.memory.facade import Memory
from factmem.memory.screening import FlaggedPolicy
from factmem.records import AssertionState, FactRecord, Place
from factmem.subjects import MemorySubject

OVERVIEW: Final = "/AGENTS.md"
"""Path of the file for prompts: the best reviewed facts of all files, within the budget of `Loading`."""


_LONGEST_TEXT: Final = LONGEST_BULLET - 1_000
"""Maximum length of a value, in characters; it leaves room in the bullet for the concept's name and the dates."""


@attrs.frozen(kw_only=True)
class MemoryTree:
    """The known facts, as files.

    Attributes:
        files: Existing files by path.
        empty: Files without facts, to which facts may be added, by path.
        records: Records by id.
    """

    files: Mapping[str, Page]
    empty: Mapping[str, Page]
    records: Mapping[str, FactRecord[Any]] = attrs.field(repr=False)

    def page(self, path: str) -> Page | None:
        """Return a file, or None if it does not exist and cannot be created."""
        return self.files.get(path) or self.empty.get(path)


@attrs.frozen(kw_only=True)
class MemoryFiles:
    """The files of one run: its user's private facts and public ones, in the agent's scopes, without quarantined ones.

    Text that an agent writes is kept verbatim. Text that reads like an instruction or hides something is marked as
    flagged in the file of its subject and scope. It is never part of a prompt: neither of `OVERVIEW` nor of a memory
    block.

    Nothing is stored as a file. Each file is rendered from the current facts when it is read, and an edit is applied
    as changes of facts with the run's origin (`Saving.tool_origin`). Paths do not name the user of the run, so the
    same path serves all users.

    Attributes:
        run: The run.
        read_only: Whether every edit is refused.
        source: Source that edits are recorded with.
    """

    run: MemoryRun
    read_only: bool = False
    source: str = "edit_file"

    async def tree(self, memory: Memory) -> MemoryTree:
        """Return the current files.

        Args:
            memory: The run's memory, in its event loop.
        """
        run = self.run
        view, subjects = run.view(memory), self._subjects
        records = await view.list_records(subjects=subjects)
        strongest = await view.view(reviewed=True).list_records(subjects=subjects, strongest=True)
        return await to_thread.run_sync(self._tree, records, strongest)

    def _tree(self, records: Sequence[FactRecord[Any]], strongest: Sequence[FactRecord[Any]]) -> MemoryTree:
        run, loading = self.run, self.run.config.loading
        by_place: dict[tuple[object, ...], tuple[Place, list[FactRecord[Any]]]] = {}
        for place in [self._home, *itertools.starmap(Place, itertools.product(self._subjects, run.config.scopes))]:
            by_place.setdefault(place.key, (place, []))
        for record in records:
            place = record.place
            by_place.setdefault(place.key, (place, []))[1].append(record)
        pages = {self._path(place): page_of(found, [place]) for place, found in by_place.values()}
        guiding = list(itertools.islice(filter(belongs_in_file, strongest), loading.limit))
        best = rendered(guiding, loading.budget, loading.count_tokens).records
        homes = [place for place, _ in by_place.values()]
        overview = page_of(best, homes, more=len(records) - len(best))
        return MemoryTree(
            files={OVERVIEW: overview}
            | {path: page for path, page in sorted(pages.items()) if page.shown or path == self._path(self._home)},
            empty={path: page for path, page in pages.items() if not page.shown},
            records={record.id: record for record in records},
        )

    async def write(self, memory: Memory, path: str, text: str) -> None:
        """Apply a whole new text of a file, which may add facts, but neither change nor drop any.

        Raises:
            InvalidDataError: The text changes or drops facts, or cannot be kept; the message says what to do.
            ReadOnlyError: The files are read-only.
        """
        edits = await self._requested(memory, path, lambda _: text)
        if lost := len(edits.revised) + len(edits.retracted):
            raise InvalidDataError(
                f"this would overwrite {lost} known facts that it leaves out. To add facts, use edit_file and put a "
                "bullet below the others; to change or take out a fact, use edit_file on its bullet"
            )
        await self._apply(memory, edits, path)

    async def edit(self, memory: Memory, path: str, change: Callable[[str], str]) -> None:
        """Apply an edit of a file.

        Args:
            memory: The run's memory, in its event loop.
            path: Path of the file.
            change: Function of the file's current text that returns the new text.

        Raises:
            InvalidDataError: The new text changes nothing, or cannot be kept; the message says what to do.
            ReadOnlyError: The files are read-only.
        """
        await self._apply(memory, await self._requested(memory, path, change), path)

    @property
    def _subjects(self) -> tuple[MemorySubject, ...]:
        return tuple(dict.fromkeys((self.run.user, *self.run.config.subjects)))

    @property
    def _home(self) -> Place:
        return Place(self.run.user, self.run.config.home)

    def _path(self, place: Place) -> str:
        subject = place.subject.name if place.subject.key == self.run.user.key else str(place.subject)
        return f"{place.scope.within(None)}/{quote(subject, safe='')}.md"

    async def _requested(self, memory: Memory, path: str, change: Callable[[str], str]) -> Edits:
        if self.read_only:
            raise ReadOnlyError("memory is read-only here: nothing was changed")
        tree = await self.tree(memory)
        page = tree.page(path)
        if page is None:
            known = ", ".join(sorted([*tree.files, *tree.empty.keys() - tree.files.keys()]))
            raise InvalidDataError(f"there is no such file in memory, and none can be made; there are {known}")
        return await to_thread.run_sync(self._edits, tree, page, change(page.text))

    def _edits(self, tree: MemoryTree, page: Page, text: str) -> Edits:
        if visible(text) != text:
            raise InvalidDataError("HTML comments are not kept here: leave them out, or write their words as a bullet")
        edits = reconciled(
            [(id, bullet.digest) for id, bullet in page.shown],
            bullets_in(text, page.places),
            page=page,
            records=tree.records,
            concepts={concept.keyword: concept for concept in self.run.config.concepts},
        )
        values = [*(value for _, value in edits.revised), *(said.value for _, said in edits.added)]
        if any(isinstance(value, str) and len(one_line(value)) > _LONGEST_TEXT for value in values):
            raise InvalidDataError(
                f"a bullet of more than {_LONGEST_TEXT:,} characters cannot be shown here: split it into several"
            )
        return edits

    async def _apply(self, memory: Memory, edits: Edits, path: str) -> tuple[Change, ...]:
        if not edits:
            raise InvalidDataError(
                "this changes no fact: a fact is the text of a bullet ('- ...') without the note of when it was said"
            )
        saving = self.run.config.saving
        view = self.run.written_by_model(memory).view(policies={"flagged": FlaggedPolicy.ANNOTATE})
        changes = await applied(view, edits, origin=saving.tool_origin, source=self.source, private=saving.private)
        if any(change.record.state is AssertionState.QUARANTINED for change in changes):
            raise InvalidDataError(
                "what you wrote was kept, but it waits until somebody confirms it, and is not shown until then: "
                "do not write it again"
            )
        flagged = [change.record for change in changes if change.record.details.unreviewed]
        if flagged and path == OVERVIEW:
            shown = ", ".join(sorted({self._path(record.place) for record in flagged}))
            raise InvalidDataError(
                f"what you wrote was kept, and stands in {shown}: it reads like an instruction or hides something, and "
                f"{OVERVIEW} leaves that out. Do not write it again"
            )
        return changes
