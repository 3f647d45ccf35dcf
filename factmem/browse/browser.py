"""`Browser`: the pages of a browser of memories as plain data, and what people do on them.

Both browsers, the one in the terminal and the local web page, ask it for everything. It sees what its memory sees and
nothing else: a memory of one viewer, or a view of some scopes, makes a browser of exactly that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc.detector import Message
from factmem.agent import Loading
from factmem.agent.config import AgentMemoryConfig, UserPolicy
from factmem.agent.plugin import AgentMemory
from factmem.agent.rendering import MemoryBlock
from factmem.browse.charts import Graph, graph_of
from factmem.browse.past import Biography, biography_of
from factmem.browse.texts import shown, typed_value
from factmem.changes import Change
from factmem.errors import CapabilityError, InvalidDataError, ModelError, OutOfViewError, StateConflictError
from factmem.json_form import value_json
from factmem.memory.dead_letters import DeadLetter
from factmem.memory.facade import Memory
from factmem.memory.filters import Filters, RecordOrder, RecordPage
from factmem.memory.scope_tree import ScopeInfo, ScopeTree
from factmem.recall.results import RecallMatches
from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import value_text

_PAGE_SIZE: Final = 50
_MOST_OF_A_SUBJECT: Final = 500
_MOST_WAITING: Final = 200
_LONGEST_BUDGET: Final = 8
_USER: Final = MemorySubject("user")

FIELDS: Final = {"scope": "scope", "subject": "about", "keyword": "concept", "category": "category", "source": "source"}
"""The texts of a `Narrowing`, by their fields, and the words for them."""


@attrs.frozen(kw_only=True)
class Opened:
    """The opening of a memory, for the head of each page and for what to offer.

    Attributes:
        store: Address of the store, without secrets.
        viewer: User who reads and writes; empty for nobody.
        walls: The scopes and subjects that the memory is confined to, as people write them.
        user: User whose memory it is, if it is one user's.
        read_only: Whether every write is refused.
        has_model: Whether a language model can read dead letters again.
        note: A sentence to show first, such as that a scope holds nothing; empty for none.
    """

    store: str = ""
    viewer: str = ""
    walls: tuple[str, ...] = ()
    user: str = ""
    read_only: bool = False
    has_model: bool = False
    note: str = ""


@attrs.frozen(kw_only=True)
class Narrowing:
    """Conditions on records, as people type them. All that are not empty must hold.

    Attributes:
        scope: Path of the scope, with its subtree.
        exact: Leave out the subtree.
        subject: The subject, with the individual after a colon.
        keyword: Keyword of the concept.
        category: A category.
        source: Name of the source.
    """

    scope: str = ""
    exact: bool = False
    subject: str = ""
    keyword: str = ""
    category: str = ""
    source: str = ""

    @property
    def given(self) -> bool:
        """Whether there is any condition."""
        return attrs.evolve(self, exact=False) != Narrowing()

    def filters(self) -> Filters:
        """Return the conditions as filters of `Memory`."""
        return {
            "scope": self.scope or None,
            "exact": self.exact and bool(self.scope),
            "subject": self.subject or None,
            "concepts": [self.keyword] if self.keyword else None,
            "categories": [self.category] if self.category else None,
            "sources": [self.source] if self.source else None,
        }


@attrs.frozen(kw_only=True)
class Overview:
    """The first page: the memory at a glance.

    Attributes:
        info: Summary of the current records.
        tree: The tree of scopes.
        recent: The records recorded last, newest first.
        waiting: Number of statements in quarantine.
        unread: Number of dead letters.
    """

    info: ScopeInfo
    tree: ScopeTree
    recent: Sequence[FactRecord[Any]]
    waiting: int
    unread: int


@attrs.frozen(kw_only=True)
class Draft:
    """The fields of a record's edit form, as texts.

    Attributes:
        value: The value: strings with their lines, anything else as JSON.
        scope: Path of the scope.
        importance: A number from 0 to 1.
        categories: Categories, with commas between.
        source: Name of the source; empty for none.
    """

    value: str
    scope: str
    importance: str
    categories: str
    source: str

    def edits(self, seen: Draft) -> dict[str, str]:
        """Return the fields that differ from those of another draft, by name; line ends are all the same."""
        theirs = attrs.asdict(seen)
        return {
            name: text
            for name, text in attrs.asdict(self).items()
            if _with_one_line_end(text) != _with_one_line_end(theirs[name])
        }


@attrs.frozen(kw_only=True)
class SubjectPage:
    """The facts of one subject.

    Attributes:
        subject: The subject, with the individual after a colon.
        description: Description of the subject.
        records: Number of records about it.
        facts: Its typed facts by keyword, then its statements; the newest ones first.
        graph: Its typed facts as a graph.
    """

    subject: str
    description: str
    records: int
    facts: Sequence[FactRecord[Any]]
    graph: Graph


@attrs.frozen(kw_only=True)
class InboxPage:
    """The page of things that wait for a decision.

    Attributes:
        waiting: Quarantined records, oldest first.
        rejected: Rejected ones, newest first; they can still be accepted.
        letters: Dead letters, oldest first.
        left_out: Number of statements that wait besides, if the page has no room for more.
    """

    waiting: Sequence[FactRecord[Any]]
    rejected: Sequence[FactRecord[Any]]
    letters: tuple[DeadLetter, ...]
    left_out: int = 0


def _stripped(typed: str) -> str:
    return typed.strip()


def _tokens(typed: int | str) -> int:
    """Return a number of tokens, which a person may have typed."""
    if isinstance(typed, str) and not (typed.isascii() and typed.isdecimal() and len(typed) < _LONGEST_BUDGET):
        raise InvalidDataError("the number of tokens is not a number: correct it")
    return int(typed)


@attrs.frozen(kw_only=True)
class AgentQuestion:
    """A question to an agent, and the names of that agent; see `factmem.AgentMemoryConfig`.

    Attributes:
        question: Words of the user; empty for a conversation that has just begun.
        user: The individual of the subject ``user``; empty for nobody in particular. It chooses whose facts are chosen
            and never who reads them: that is the viewer.
        agent: Name of the agent.
        feature: Name of the feature.
        product: Name of the product.
        budget: Maximum number of tokens of the block.

    Raises:
        InvalidDataError: The budget is not a number.
    """

    question: str = attrs.field(default="", converter=_stripped)
    user: str = attrs.field(default="", converter=_stripped)
    agent: str = attrs.field(default="", converter=_stripped)
    feature: str = attrs.field(default="", converter=_stripped)
    product: str = attrs.field(default="", converter=_stripped)
    budget: int = attrs.field(default=Loading().budget, converter=_tokens)


@attrs.frozen(kw_only=True)
class AgentBlock:
    """The block that the plugin would put into the agent's request.

    Attributes:
        block: The block, exactly as the model gets it.
        tokens: Estimated number of tokens of the block.
        scopes: The scopes that were looked in.
    """

    block: MemoryBlock
    tokens: int
    scopes: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Difference:
    """One field of an edit form that was edited, or that the store has another text of by now.

    Attributes:
        name: Name of the field.
        was: Its text when the form was opened; empty if that revision is gone.
        now: Its text in the store.
        yours: Its text in the form.
    """

    name: str
    was: str
    now: str
    yours: str


@attrs.frozen(kw_only=True)
class Comparison:
    """An edit beside the present revision of its record.

    Attributes:
        page: The record as it is now.
        draft: The form to go on with: the edited fields as they were typed, the others as they are now.
        differences: The fields that are not the same everywhere.
    """

    page: Biography
    draft: Draft
    differences: tuple[Difference, ...]


@attrs.frozen
class ErasurePreview:
    """A dry run of `Browser.forget`.

    Attributes:
        records: The records that would be erased, with all their history, oldest first; then the words that they were
            found in.
    """

    records: Sequence[FactRecord[Any]]

    @property
    def phrase(self) -> str:
        """The words that a person must type to confirm it."""
        number = len(self.records)
        return f"forget {number} {'record' if number == 1 else 'records'}"

    @property
    def seal(self) -> str:
        """A mark of exactly these revisions: if anything else would be erased by then, nothing is."""
        seen = sorted(f"{record.id} {record.revision}" for record in self.records)
        return hashlib.blake2b("\n".join(seen).encode(), digest_size=12).hexdigest()


class Browser:
    """The pages over one memory.

        browser = Browser(memory)
        for match in await browser.search("Where does Maya live?"):
            print(match.record.value, match.score)

    Args:
        memory: An open memory, or a view of one. Its viewer and its walls are those of every page.
        opened: The opening of it.

    Attributes:
        memory: The memory, for changes that need no more than its own methods.
        opened: The opening of it.
    """

    def __init__(self, memory: Memory, opened: Opened | None = None) -> None:
        self.memory: Final = memory
        self.opened: Final = opened or Opened()

    # -- Looking --------------------------------------------------------------------------------------------------

    async def mark(self) -> str:
        """Return a mark that changes with the visible records, whichever process changes them.

        A browser compares it now and then, and reads its page again if it is another one.
        """
        info = await self.memory.admin.info()
        newest = await self.memory.list_records(limit=1, order_by=RecordOrder.RECORDED)
        seen = [info, [record.revision for record in newest], await self.memory.inbox.quarantine.count()]
        seen.append([letter.id for letter in await self.memory.inbox.dead_letters.list()])
        return hashlib.blake2b(repr(seen).encode(), digest_size=12).hexdigest()

    async def overview(self) -> Overview:
        """Return the first page."""
        return Overview(
            info=await self.memory.admin.info(),
            tree=await self.memory.admin.tree(),
            recent=await self.memory.list_records(limit=10, order_by=RecordOrder.RECORDED),
            waiting=await self.memory.inbox.quarantine.count(),
            unread=len(await self.memory.inbox.dead_letters.list()),
        )

    async def listing(self, narrowing: Narrowing, *, page: str | None = None, size: int = _PAGE_SIZE) -> RecordPage:
        """Return one page of current records, newest first.

        Args:
            narrowing: The conditions.
            page: `RecordPage.next_page` of the page before; None for the first one.
            size: Maximum number of records of the page.

        Raises:
            InvalidDataError: A condition or the page is not legal.
            OutOfViewError: The scope or the subject lies outside of the memory's view.
        """
        return await self.memory.list_records(limit=size, page=page, **narrowing.filters())

    async def search(self, query: str, narrowing: Narrowing | None = None, *, limit: int = 20) -> RecallMatches:
        """Return the best records for a query, each with the parts of its score.

        Args:
            query: The query, in words.
            narrowing: Conditions on the records.
            limit: Maximum number of results.

        Raises:
            InvalidDataError: The query is blank, or a condition is not legal.
            OutOfViewError: The scope or the subject lies outside of the memory's view.
        """
        return await self.memory.recall(query, limit=limit, history=True, **(narrowing or Narrowing()).filters())

    async def record(self, id: str) -> Biography:
        """Return all about one record, whatever its state.

        Args:
            id: The id of the record, in full.

        Raises:
            RecordNotFoundError: No visible record has this id.
        """
        return await biography_of(self.memory, id)

    async def subject(self, subject: str) -> SubjectPage:
        """Return the facts of one subject.

        Args:
            subject: The subject, with the individual after a colon.

        Raises:
            InvalidNameError: The name is not legal.
            OutOfViewError: The subject lies outside of the memory's view.
        """
        found = await self.memory.list_records(subject=subject, limit=_MOST_OF_A_SUBJECT)
        facts = sorted(found, key=lambda record: (record.is_statement, record.concept.keyword))
        info = await self.memory.admin.info(subjects=[subject])
        return SubjectPage(
            subject=subject,
            description=shown(found[0].subject.prompt_description) if found else "",
            records=info.records,
            facts=facts,
            graph=graph_of(shown(subject), [record for record in facts if not record.is_statement]),
        )

    async def inbox(self) -> InboxPage:
        """Return what waits for a decision: quarantined records and dead letters."""
        quarantine = self.memory.inbox.quarantine
        waiting = await quarantine.list(limit=_MOST_WAITING)
        return InboxPage(
            waiting=waiting,
            rejected=await quarantine.list(rejected=True, limit=_MOST_WAITING, descending=True),
            letters=await self.memory.inbox.dead_letters.list(),
            left_out=max(0, await quarantine.count() - len(waiting)) if waiting.next_page else 0,
        )

    async def agent_block(self, question: AgentQuestion) -> AgentBlock:
        """Return the block that the plugin would put into the request of an agent, for this memory's viewer.

        Raises:
            InvalidDataError: A name or the budget is not legal, or the agent takes part in no visible scope.
            OutOfViewError: One of the agent's scopes lies outside of the memory's view.
        """
        cross_product = await self._reaches(scope=MemoryScope.CROSS_PRODUCT)
        if not (cross_product or question.agent or question.feature or question.product):
            raise InvalidDataError("these pages show some scopes only: name an agent, feature or product in them")
        config = AgentMemoryConfig(
            store=self.memory,
            agent_name=question.agent or None,
            feature_name=question.feature or None,
            product_name=question.product or None,
            cross_product=cross_product,
            user=_USER.individual(question.user) if question.user else _USER,
            users=UserPolicy.SHARED,
            loading=Loading(budget=question.budget),
        )
        said = [Message(content=question.question, role="user")] if question.question.strip() else []
        subjects = None if await self._reaches(subject=MemorySubject.EVERYTHING) else [config.user]
        block = await AgentMemory(config).for_run().load(said, subjects=subjects)
        return AgentBlock(
            block=block, tokens=config.loading.count_tokens(block.text), scopes=tuple(map(str, config.scopes))
        )

    async def _reaches(self, *, scope: MemoryScope | None = None, subject: MemorySubject | None = None) -> bool:
        """Return whether a scope or a subject lies in the memory's view."""
        try:
            await self.memory.list_records(limit=1, scope=scope, exact=scope is not None, subject=subject)
        except OutOfViewError:
            return False
        return True

    # -- Changing -------------------------------------------------------------------------------------------------

    async def update(self, id: str, draft: Draft, *, revision: int) -> Change:
        """Change the fields of a record that a person has edited; its history keeps the revision before.

        A record that moves has another id afterwards.

        Args:
            id: The id of the record, in full.
            draft: The form as it was sent.
            revision: The revision that the form was opened on.

        Raises:
            RecordNotFoundError: No record that is current and visible has this id.
            InvalidDataError: A text is not of its field's type, or nothing was edited.
            OutOfViewError: The scope lies outside of the memory's view.
            StateConflictError: The record has a newer revision (see `compared`); or the scope holds this value, or
                another one of the concept. Nothing was changed.
            ReadOnlyError: The memory is read-only.
        """
        present = await self.memory.get(id)
        if present.revision != revision:
            raise StateConflictError(
                "the record was changed since this form was opened: compare both, and save again what is to hold; "
                "nothing was changed"
            )
        edits = draft.edits(draft_of(present))
        if not edits:
            raise InvalidDataError("nothing is changed: edit a field first")
        return await self.memory.update(id, **_changes(present, edits))

    async def compared(self, id: str, draft: Draft, *, revision: int) -> Comparison:
        """Compare an edit with the present revision of its record; see `update`.

        Raises:
            RecordNotFoundError: No visible record has this id.
        """
        page = await self.record(id)
        present = draft_of(page.record)
        seen = next((draft_of(record) for record in page.revisions if record.revision == revision), None)
        edits = draft.edits(seen or present)
        was, now, yours = (attrs.asdict(item) if item else {} for item in (seen, present, draft))
        return Comparison(
            page=page,
            draft=attrs.evolve(present, **edits),
            differences=tuple(
                Difference(name=name, was=was.get(name, ""), now=text, yours=yours[name])
                for name, text in now.items()
                if name in edits or was.get(name) != text
            ),
        )

    async def retry(self, ids: Sequence[str]) -> Sequence[Change]:
        """Read dead letters again; those that fail again stay. See `DeadLetters.retry`.

        Raises:
            CapabilityError: No language model was named.
            RecordNotFoundError: An id names no dead letter.
            ModelError: Some could not be read again; the others were.
        """
        if not self.opened.has_model:
            raise CapabilityError(
                "reading again needs a language model: start the browser with --model ADDRESS or FACTMEM_MODEL"
            )
        results = await self.memory.inbox.dead_letters.retry(*ids)
        if failures := [result.failure for result in results if result.failure is not None]:
            names = ", ".join(dict.fromkeys(failures))
            raise ModelError(f"{len(failures)} of {len(results)} texts could not be read again ({names}): try later")
        return [change for result in results for change in result.changes]

    async def erasure_preview(self, narrowing: Narrowing | None = None, ids: Sequence[str] = ()) -> ErasurePreview:
        """Return what `forget` would erase.

        Args:
            narrowing: Conditions on the records.
            ids: Only these records.

        Raises:
            InvalidDataError: There is neither a condition nor an id.
            OutOfViewError: The scope or the subject lies outside of the memory's view.
        """
        filters = (narrowing or Narrowing()).filters()
        erasure = await self.memory.forget(*ids, dry_run=True, **filters)
        return ErasurePreview((*erasure.records, *erasure.words))

    async def forget(
        self, narrowing: Narrowing | None = None, ids: Sequence[str] = (), *, typed: str, seal: str
    ) -> ErasurePreview:
        """Erase records for good, with all their history, after a person has seen which and has typed the phrase.

        Args:
            narrowing: Conditions on the records.
            ids: Only these records.
            typed: The words typed; `ErasurePreview.phrase` confirms it.
            seal: `ErasurePreview.seal` of what the person has seen.

        Returns:
            The records that were erased.

        Raises:
            InvalidDataError: The words typed are others, or there is neither a condition nor an id.
            StateConflictError: Other records or revisions than those seen would be erased; nothing was.
            ReadOnlyError: The memory is read-only.
        """
        preview = await self.erasure_preview(narrowing, ids)
        if preview.seal != seal:
            raise StateConflictError("the records to erase have changed: look again; nothing was erased")
        if " ".join(typed.split()).casefold() != preview.phrase:
            raise InvalidDataError(f"to erase them for good, type: {preview.phrase}; nothing was erased")
        if preview.records:
            await self.memory.forget(*[record.id for record in preview.records])
        return preview


def draft_of(record: FactRecord[Any]) -> Draft:
    """Return the edit form of a record before anything is edited."""
    details = record.details
    return Draft(
        value=value_text(value_json(record)),
        scope=str(record.scope),
        importance=str(details.importance),
        categories=", ".join(details.categories),
        source=details.source or "",
    )


def _changes(present: FactRecord[Any], edits: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `Memory.update` for edited fields.

    Raises:
        InvalidDataError: A text is not of its field's type.
    """
    changes: dict[str, Any] = dict(edits)
    if "value" in edits:
        changes["value"] = typed_value(edits["value"].replace("\r\n", "\n"), present.concept.value_type)
    if "importance" in edits:
        try:
            changes["importance"] = float(edits["importance"])
        except ValueError:
            raise InvalidDataError("the importance is not a number from 0 to 1: correct it") from None
    if "categories" in edits:
        changes["categories"] = tuple(filter(None, map(str.strip, edits["categories"].split(","))))
    return changes


def _with_one_line_end(text: str) -> str:
    """Return a text with one kind of line ends: forms change them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
