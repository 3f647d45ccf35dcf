"""The context of a memory: its tenant, viewer, actor, view, policies and clock. A view is an evolved context."""

from __future__ import annotations

import datetime as dt
import enum
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypedDict

import attrs

from factmem.abc.detector import Message
from factmem.consolidation import ConsolidationPolicy
from factmem.details import FactDetails
from factmem.detection import OriginPolicy
from factmem.error_hints import hinted
from factmem.errors import CapabilityError, InvalidDataError, OutOfViewError, ReadOnlyError
from factmem.facts import ClockTime, Concept
from factmem.fold import Moment
from factmem.memory.profiles import ProfileSchema
from factmem.memory.screening import FlaggedPolicy, QuarantineQuota, heard_as
from factmem.memory.taint import Heard
from factmem.memory.ttl import TtlPolicy
from factmem.observing import Observation
from factmem.recall import DeepSettings, RecallFilter
from factmem.recall.scoring import RecallSettings
from factmem.records import Assertion, Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import check_aware, check_instance, fraction, instance_of, listed, positive, seconds
from factmem.views import UNCONFINED, Sight, View

if TYPE_CHECKING:
    from factmem.abc.clock import Clock

_DEEP: Final = DeepSettings()
_parsed: Final = functools.lru_cache(maxsize=1024)(MemoryScope.parse)


class FuturePolicy(enum.Enum):
    """Treatment of a fact whose timestamp lies in the future by more than the clock skew.

    Attributes:
        REFUSE: Raise `InvalidDataError`.
        CLAMP: Set the timestamp to the present.
    """

    REFUSE = "refuse"
    CLAMP = "clamp"


@functools.lru_cache(maxsize=1024)
def _place(subject: MemorySubject, scope: MemoryScope) -> Place:
    # Places are keys of many tables, where the same object is found without comparing its parts.
    return Place(subject, scope)


@attrs.frozen(kw_only=True)
class MediaSettings:
    """Limits of media in messages, and whether their bytes are kept.

    Attributes:
        max_bytes: Maximum size of a medium.
        max_pages: Maximum number of pages of a PDF.
        max_chars: Maximum number of characters that are taken from a medium.
        pdf_seconds: Time limit for reading the text of a PDF.
        keep: Folder in which the bytes of media are kept that were read, each under its hash; None to keep none. They
            are removed when all that was read from them is forgotten. The folder is not encrypted.

    Raises:
        InvalidDataError: A limit is out of range.
    """

    max_bytes: int = attrs.field(default=20 << 20, validator=positive)
    max_pages: int = attrs.field(default=500, validator=positive)
    max_chars: int = attrs.field(default=1_000_000, validator=positive)
    pdf_seconds: float = attrs.field(default=30.0, validator=seconds)
    keep: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))


@hinted
@attrs.frozen(kw_only=True)
class Policies:
    """Rules that apply to everything that is written.

    Attributes:
        future: Treatment of timestamps from the future.
        clock_skew: Maximum time that a timestamp may lie in the future.
        ttl: Times to live.
        flagged: Treatment of text that reads like an instruction or hides something.
        quarantine: Limits of what waits in quarantine.
        origins: Treatment of messages by their origin.
        consolidation: Comparison of new statements with known ones.
        keep_words: Keep the user's words as statements beside the facts that a model finds in them. Otherwise they
            are retracted once they were read, and only facts, statements about the topics asked for and standing
            instructions of the user are recalled. They stay in the store until they expire; see `TtlPolicy.create`.
        default_importance: Importance of words that are remembered without one, from 0 to 1.
        media: Limits of images, sound, video and files in messages.

    Raises:
        InvalidDataError: A policy has another type or is out of range.
    """

    future: FuturePolicy = attrs.field(default=FuturePolicy.REFUSE, validator=instance_of(FuturePolicy))
    clock_skew: dt.timedelta = attrs.field(default=dt.timedelta(minutes=5), validator=instance_of(dt.timedelta))
    ttl: TtlPolicy = attrs.field(factory=TtlPolicy, validator=instance_of(TtlPolicy))
    flagged: FlaggedPolicy = attrs.field(default=FlaggedPolicy.QUARANTINE_OTHERS, validator=instance_of(FlaggedPolicy))
    quarantine: QuarantineQuota = attrs.field(factory=QuarantineQuota, validator=instance_of(QuarantineQuota))
    origins: OriginPolicy = attrs.field(factory=OriginPolicy, validator=instance_of(OriginPolicy))
    consolidation: ConsolidationPolicy = attrs.field(
        factory=ConsolidationPolicy, validator=instance_of(ConsolidationPolicy)
    )
    keep_words: bool = attrs.field(default=True, validator=instance_of(bool))
    default_importance: float = attrs.field(default=0.5, validator=fraction)
    media: MediaSettings = attrs.field(factory=MediaSettings, validator=instance_of(MediaSettings))


class PolicyChanges(TypedDict, total=False):
    """Some policies by name; see `Policies`."""

    future: FuturePolicy
    clock_skew: dt.timedelta
    ttl: TtlPolicy
    flagged: FlaggedPolicy
    quarantine: QuarantineQuota
    origins: OriginPolicy
    consolidation: ConsolidationPolicy
    keep_words: bool
    default_importance: float
    media: MediaSettings


@attrs.frozen(kw_only=True)
class Context:
    """State that distinguishes one view of a memory from another. Frozen: a view evolves it.

    Attributes:
        tenant: The organization whose data is read and written.
        viewer: The reader and owner of private facts; sees public facts and their own.
        actor: The writer named in the audit trail; the viewer if None.
        view: The scopes and subjects that reads and writes are confined to.
        reviewed: Leave out records that are `FactDetails.unreviewed`.
        read_only: Refuse every write.
        all_users: Whether administration reaches the private facts of all users.
        past: The moment to read at; None for the present.
        concepts: The declared concepts and those of the profiles by keyword; other facts are read by their shape.
        profiles: The profiles that every detection fills.
        settings: Weights of recall.
        deep: Settings of deep recall.
        policies: Rules for everything that is written.
        subject: The subject of facts that are written without one; the view is about it.
        subjects: Declared subjects by name: a text that names one has its description and priority.
        private: Whether written facts belong to the viewer alone by default.
        clock: Returns the present.
        observation: The observers of every operation; None without any.
        heard: The conversation in which a model writes; empty if no model does.
    """

    tenant: str | None
    viewer: str | None
    concepts: Mapping[str, Concept[Any, Any]]
    settings: RecallSettings = attrs.field(validator=instance_of(RecallSettings))
    clock: Clock
    profiles: tuple[ProfileSchema[Any], ...] = ()
    policies: Policies = attrs.field(factory=Policies)
    deep: DeepSettings = attrs.field(default=_DEEP, validator=instance_of(DeepSettings))
    subject: MemorySubject = MemorySubject.EVERYTHING
    subjects: Mapping[str, MemorySubject] = attrs.field(factory=dict)
    private: bool = False
    actor: str | None = None
    view: View = UNCONFINED
    reviewed: bool = False
    read_only: bool = False
    all_users: bool = False
    past: Moment | None = None
    observation: Observation | None = None
    heard: tuple[Heard, ...] = attrs.field(default=(), repr=False)

    @property
    def moment(self) -> Moment:
        """The moment that reads refer to."""
        return self.past or Moment(now=self.clock())

    @property
    def said_now(self) -> ClockTime:
        """The time of what is said now."""
        return ClockTime.of(self.clock())

    @property
    def writer(self) -> str | None:
        """The name of the writer in the audit trail."""
        return self.actor or self.viewer

    @property
    def sight(self) -> Sight:
        """The assertions that a read without a subject may show."""
        return Sight(viewer=self.viewer, view=self.view, reviewed=self.reviewed)

    def sight_of(self, wanted: RecallFilter | None) -> Sight:
        """Return the assertions that a read with a filter may show: also those about the individuals that it names."""
        if wanted is None or self.view.individuals is None:
            return self.sight
        named = (*(wanted.subjects or ()), *([] if wanted.subject is None else [wanted.subject]))
        return attrs.evolve(self.sight, view=self.view.naming(named))

    @property
    def everybody(self) -> Context:
        """This context, where reads also show public facts about individuals that they do not name.

        Writes use it, and reads of records by their ids.
        """
        if self.view.individuals is None:
            return self
        return attrs.evolve(self, view=attrs.evolve(self.view, individuals=None))

    def administers(self, said: Assertion) -> bool:
        """Return whether administration reaches an assertion: one that is seen, or anyone's; see `of_all_users`."""
        return self.all_users or self.sight.sees(said)

    def of_all_users(self) -> Context:
        """Return this context for the administration of the private facts of all users.

        Raises:
            InvalidDataError: It has a viewer.
            OutOfViewError: It is confined to a view.
        """
        if self.viewer is not None:
            raise InvalidDataError("a viewer reaches their own private facts only: open the memory without viewer=")
        if self.view != UNCONFINED:
            raise OutOfViewError("a view cannot reach all users: ask the memory that it was made of")
        return attrs.evolve(self, all_users=True)

    def check_writable(self) -> None:
        """Raise if writes are not allowed.

        Raises:
            ReadOnlyError: The memory is read-only, or shows the past.
        """
        if self.past is not None:
            raise ReadOnlyError("the past cannot be changed: write to the memory that this view was made of")
        if self.read_only:
            raise ReadOnlyError("this memory was opened read-only: open it without read_only=True to write")

    def check_present(self) -> None:
        """Raise if the memory shows the past, for an operation that has no meaning there.

        Raises:
            CapabilityError: The memory shows the past.
        """
        if self.past is not None:
            raise CapabilityError("this view shows the past: ask the memory that it was made of")

    def anchored(self, scope: MemoryScope | str | None) -> MemoryScope | None:
        """Anchor a scope that may hold facts at the tenant.

        Raises:
            InvalidNameError: The path is not legal, or names a whole branch.
            InvalidDataError: It is not a scope, or belongs to another organization.
            OutOfViewError: The scope lies outside of the view.
        """
        found = self._reached(_parsed(scope) if isinstance(scope, str) else scope)
        return None if found is None else found.checked()

    def subtree(self, scope: MemoryScope | str | None, *, exact: bool = False) -> MemoryScope | None:
        """Anchor a scope to read with its subtree, which may be a whole branch; None, or ``/``, is everything.

        Args:
            scope: The scope.
            exact: Whether the subtree is left out.

        Raises:
            InvalidNameError: The path is not legal.
            InvalidDataError: It is not a scope, or belongs to another organization; or the subtree of a branch or of
                everything is left out, which hold no facts themselves.
            OutOfViewError: The scope lies outside of the view.
        """
        found = self._reached(MemoryScope.subtree(scope) if isinstance(scope, str) else scope)
        if exact and scope is not None and (found is None or found.is_branch):
            raise InvalidDataError("a whole branch holds no facts itself: leave exact out", path="$.exact")
        return found

    def _reached(self, scope: MemoryScope | None) -> MemoryScope | None:
        if scope is None:
            return None
        check_instance(scope, "scope", MemoryScope, str, hint="give a path such as '/product/alpha'")
        if scope.tenant not in (None, self.tenant):
            raise InvalidDataError("the scope belongs to another organization: open a memory with that organization=")
        anchored = scope.within(self.tenant)
        self.view.check_reaches(anchored)
        return anchored

    def about(self, subject: MemorySubject | str | None) -> MemorySubject:
        """Return the subject to write about: the given one, or this context's.

        Raises:
            InvalidNameError: A name is not legal.
            OutOfViewError: The view is not about the subject.
        """
        return self.named(subject) or self.subject

    def named(self, subject: MemorySubject | str | None) -> MemorySubject | None:
        """Return a subject, which may be given as a text such as ``user`` or ``user:alice``.

        Raises:
            InvalidDataError: The subject is of another type.
            InvalidNameError: A name is not legal.
            OutOfViewError: The view is not about the subject.
        """
        if subject is None:
            return None
        found = self._declared(subject) if isinstance(subject, str) else subject
        check_instance(found, "subject", MemorySubject)
        self.view.check_about(found)
        return found

    def of_user(self, subject: MemorySubject) -> MemorySubject:
        """Return a subject, narrowed to the individual whom the view is for if it is the one of all users."""
        own = self.subject
        if self.view.individuals is None or own.individual_name is None or subject.key != (own.name, None):
            return subject
        return subject.individual(own.individual_name)

    def _declared(self, text: str) -> MemorySubject:
        found = MemorySubject.parse(text)
        if (declared := self.subjects.get(found.name)) is not None:
            found = attrs.evolve(declared, individual_name=found.individual_name)
        return next((subject for subject in self.view.subjects if subject.key == found.key), found)

    def target(self, scope: MemoryScope | str | None) -> MemoryScope:
        """Return the scope to write to: the given one, else the view's own, else the one that holds everywhere.

        Raises:
            OutOfViewError: The view has several scopes, and the one that holds everywhere is not among them.
        """
        if (anchored := self.anchored(scope)) is not None:
            return anchored
        if (only := self.view.only) is not None and not only.is_branch:
            return only
        everywhere = MemoryScope.CROSS_PRODUCT.within(self.tenant)
        if not self.view.reaches(everywhere):
            raise OutOfViewError("this view has several scopes: say which one with scope=")
        return everywhere

    def place(self, subject: MemorySubject | str | None, scope: MemoryScope | str | None) -> Place:
        """Return the place to write to; see `about` and `target`.

        Raises:
            InvalidDataError: The subject is of another type.
        """
        return _place(self.about(subject), self.target(scope))

    def confined_to_scopes(self, scopes: Iterable[MemoryScope | str], exact: Iterable[MemoryScope | str]) -> Context:
        """Return this context confined to some scopes.

        Raises:
            InvalidDataError: There is no scope.
            OutOfViewError: A scope lies outside of this view.
        """
        if isinstance(scopes, str):
            raise InvalidDataError("scopes takes a list: [scope, ...]; for a single scope, use scope()")
        roots = [self._in_view(scope) for scope in scopes]
        within = [self._in_view(scope, exact=True) for scope in exact]
        view = View(
            roots=tuple(dict.fromkeys(scope for scope in roots if scope is not None)),
            exact=tuple(dict.fromkeys(scope for scope in within if scope is not None)),
        )
        if not roots and not within:
            raise InvalidDataError("a view needs at least one scope: without any it would show nothing")
        view = self.view if None in roots else self.view.narrowed(view)
        return attrs.evolve(self, view=view)

    def _in_view(self, scope: MemoryScope | str, *, exact: bool = False) -> MemoryScope | None:
        """Return a scope of a view of this context, or None for everything in it.

        A path without a leading slash may be relative to the only scope.
        """
        try:
            return self.target(None) if scope is None else self.subtree(scope, exact=exact)
        except OutOfViewError:
            if not isinstance(scope, str) or scope.startswith("/") or (only := self.view.only) is None:
                raise
            return only.below(scope)

    def confined_to_subjects(self, subjects: Iterable[MemorySubject | str]) -> Context:
        """Return this context confined to some subjects, the first of which is written about by default.

        Raises:
            InvalidDataError: There is no subject.
            OutOfViewError: A subject lies outside of this view.
        """
        found = [self.named(subject) for subject in listed("subjects", subjects, MemorySubject, str)]
        several = tuple(dict.fromkeys(subject for subject in found if subject is not None))
        if not several:
            raise InvalidDataError("a view needs at least one subject: without any it would show nothing")
        view = self.view.narrowed(View(subjects=several))
        return attrs.evolve(self, view=view, subject=self.subject if view.is_about(self.subject.key) else several[0])

    def seen_by(self, viewer: str | None, individual: MemorySubject | str | None) -> Context:
        """Return this context for another viewer.

        Args:
            viewer: The viewer.
            individual: The individual whose facts reads show; everybody's if None.

        Raises:
            OutOfViewError: The view is not about the individual.
        """
        view = self.everybody.view
        if (own := self.named(individual)) is not None:
            view = attrs.evolve(view, individuals=frozenset()).naming([own])
        return attrs.evolve(self, viewer=viewer, view=view)

    def for_user(self, name: str) -> Context:
        """Return this context for one user: the viewer, and by default the subject and owner of facts.

        Raises:
            OutOfViewError: The view is not about the user.
        """
        subject = self.about(f"user:{name}")
        return attrs.evolve(self.seen_by(name, subject), subject=subject, private=True)

    def listening(self, messages: Iterable[Message]) -> Context:
        """Return this context for what a model writes in a conversation.

        Raises:
            InvalidDataError: An item is not a message.
        """
        origins, flagged = self.policies.origins, self.policies.flagged
        given = listed("messages", messages, Message)
        return attrs.evolve(self, heard=tuple(heard_as(item, origins=origins, flagged=flagged) for item in given))

    def at(self, *, as_of: dt.datetime | None, known_at: dt.datetime | None) -> Context:
        """Return this context at a moment of the past.

        Args:
            as_of: Only facts that had been said by then.
            known_at: Only facts that had been recorded by then.

        Raises:
            InvalidDataError: A time has no zone.
        """
        given = {"as_of": as_of, "known_at": known_at}
        times = {name: check_aware(when, name) for name, when in given.items() if when is not None}
        return attrs.evolve(self, past=attrs.evolve(self.moment, **times))

    def owned(self, details: FactDetails | None, *, private: bool | None) -> FactDetails:
        """Return a copy of details, by default those of a fact without any, with their owner.

        Raises:
            InvalidDataError: A private fact would have no owner, or another one than the viewer.
        """
        if details is None:
            details = FactDetails()
        else:
            check_instance(details, "details", FactDetails)
            details = attrs.evolve(details)  # the caller may change theirs
        check_instance(private, "private", bool, NoneType)
        if self.private if private is None else private:
            if self.viewer is None:
                raise InvalidDataError("a private fact needs an owner: open the memory with viewer=")
            details = attrs.evolve(details, owner=details.owner or self.viewer)
        if details.owner not in self.sight.owners:
            raise InvalidDataError(
                "only the viewer's own private facts can be written: use view(viewer=…), or import your own export of "
                "all users with trust=True and no viewer"
            )
        return details
