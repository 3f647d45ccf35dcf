"""Concepts, and the facts that they key.

A `Concept` is a typed key. Its two static types determine the fact that a load returns, so that a type checker knows
that loading a ``SingleConcept[int]`` gives a ``SingleFact[int]``.
"""

from __future__ import annotations

import datetime as dt
import enum
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, overload

import attrs
from typing_extensions import TypeForm, TypeVar, override

from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.legal_names import folded_keyword
from factmem.shapes import Shape, shape_of
from factmem.validators import check_aware, check_text, made, named, text
from factmem.values import canonical_bytes, check_value, encode_value

T = TypeVar("T")
V = TypeVar("V")
FactT = TypeVar("FactT", covariant=True, default="SingleFact[Any] | MultipleFacts[Any]")


class FactType(enum.Enum):
    """Number of values that a concept has at one place."""

    SINGLE = "single"
    MULTIPLE = "multiple"


class ClockTime(dt.datetime):
    """The time of a clock, where no caller gave another one. What is computed or copied from it is a plain datetime.

    A store whose newest entry is later, since the clock was set back, may replace it by the time of that entry.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a plain datetime: arithmetic and copying make their results by the class."""
        return dt.datetime(*args, **kwargs)

    @classmethod
    def of(cls, moment: dt.datetime) -> ClockTime:
        """Return an aware time as one that a clock gave, in UTC."""
        it = utc(moment, what="clock")
        return super().__new__(cls, it.year, it.month, it.day, it.hour, it.minute, it.second, it.microsecond, dt.UTC)

    @override
    def replace(self, *args: Any, **kwargs: Any) -> Any:
        return dt.datetime.combine(self.date(), self.timetz()).replace(*args, **kwargs)

    def __repr__(self) -> str:
        return super().__repr__().replace(type(self).__name__, "datetime.datetime", 1)


_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


def microseconds(moment: dt.datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_at(microseconds: int) -> dt.datetime:
    """Return the time at so many microseconds since 1970."""
    return _EPOCH + microseconds * _MICROSECOND


def utc(moment: dt.datetime, *, what: str = "timestamp") -> dt.datetime:
    """Return an aware datetime in UTC.

    Args:
        moment: the datetime.
        what: its name, for the error.

    Raises:
        InvalidDataError: it is not a datetime, has no time zone, or lies outside the years that UTC can express.
    """
    if isinstance(moment, dt.datetime) and moment.tzinfo is dt.UTC:
        return moment  # as nearly all are
    check_aware(moment, what)
    try:
        return moment.astimezone(dt.UTC)
    except OverflowError:
        raise InvalidDataError(f"{what} lies outside the years that UTC can express", path=f"$.{what}") from None


def _true_at(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else utc(moment, what="valid_from or valid_to")


def _now() -> ClockTime:
    return ClockTime.of(dt.datetime.now(dt.UTC))


def _storable(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    shape_of(value)


def _pairs(examples: Iterable[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    try:
        return tuple((sentence, value) for sentence, value in examples)
    except (TypeError, ValueError):
        raise InvalidDataError(
            "examples takes pairs of a sentence and the value that it says: give [(sentence, value), …]",
            path="$.examples",
        ) from None


def _examples(instance: Concept[Any, Any], attribute: attrs.Attribute[Any], value: tuple[tuple[str, Any], ...]) -> None:
    for number, (sentence, said) in enumerate(value):
        try:
            check_text(sentence, path="$")
            check_value(said, instance.value_type)
        except InvalidDataError as error:
            raise InvalidDataError(
                f"an example is a sentence and a value of the concept's type: {error}", path=f"$.examples[{number}]"
            ) from None


@attrs.frozen
class Concept(Generic[T, FactT]):
    """A typed key for facts, made with `Concept.single` or `Concept.multiple`.

    Attributes:
        keyword: the unique key. Facts are found by any alike keyword, regardless of case, hyphens, underscores,
            spaces and the normal form of letters.
        description: its meaning, for people, models and search.
        value_type: the type of a value; any type that `factmem.values` can write as JSON. The stored JSON must tell the
            options of a union apart: ``date | int`` and ``Cat | Dog`` may be stored, ``date | str`` may not.
        examples: pairs of a sentence and the value that it says, shown to a language model that looks for the concept.
            They are not part of the concept's identity and are not stored with facts.

    Raises:
        InvalidDataError: the keyword is not a legal name, the type cannot be stored, or an example is not of it.

    Example:
        >>> SEATS = Concept.single("seats", "Number of seats", int, examples=[("We booked for twelve.", 12)])
        >>> TAGS = Concept.multiple("tags", "Labels of the project")
    """

    fact_type: ClassVar[FactType]
    """Whether a concept has one value or several."""

    keyword: str = attrs.field(validator=named("a concept's keyword"))
    description: str = attrs.field(validator=text)
    value_type: type[T] = attrs.field(kw_only=True, validator=_storable)
    examples: tuple[tuple[str, T], ...] = attrs.field(
        default=(), kw_only=True, eq=False, repr=False, converter=_pairs, validator=_examples
    )

    @overload
    @staticmethod
    def single(keyword: str, description: str, *, examples: Iterable[tuple[str, str]] = ...) -> SingleConcept[str]: ...
    @overload
    @staticmethod
    def single(
        keyword: str, description: str, value_type: type[V], *, examples: Iterable[tuple[str, V]] = ...
    ) -> SingleConcept[V]: ...
    @overload
    @staticmethod
    def single(
        keyword: str, description: str, value_type: TypeForm[V], *, examples: Iterable[tuple[str, V]] = ...
    ) -> SingleConcept[V]: ...
    @staticmethod
    def single(
        keyword: str, description: str, value_type: Any = str, *, examples: Iterable[tuple[str, Any]] = ()
    ) -> SingleConcept[Any]:
        """Return a concept with one value at a time; a newer value supersedes it."""
        return SingleConcept(keyword, description, value_type=value_type, examples=examples)

    @overload
    @staticmethod
    def multiple(
        keyword: str, description: str, *, examples: Iterable[tuple[str, str]] = ...
    ) -> MultipleConcept[str]: ...
    @overload
    @staticmethod
    def multiple(
        keyword: str, description: str, value_type: type[V], *, examples: Iterable[tuple[str, V]] = ...
    ) -> MultipleConcept[V]: ...
    @overload
    @staticmethod
    def multiple(
        keyword: str, description: str, value_type: TypeForm[V], *, examples: Iterable[tuple[str, V]] = ...
    ) -> MultipleConcept[V]: ...
    @staticmethod
    def multiple(
        keyword: str, description: str, value_type: Any = str, *, examples: Iterable[tuple[str, Any]] = ()
    ) -> MultipleConcept[Any]:
        """Return a concept with a set of values, in the order first said; ``value_type`` is the type of one value.

        Saving adds values to the set of a place. The sets of several scopes are not united: the narrower one replaces
        the broader one as a whole, as a single value does.
        """
        return MultipleConcept(keyword, description, value_type=value_type, examples=examples)

    @property
    def is_statement(self) -> bool:
        """Whether its values are statements in their own words, so that its keyword says nothing."""
        return self.keyword == STATEMENT.keyword

    @property
    def shape(self) -> Shape:
        """The structural tag of the value type. See `factmem.shapes`."""
        return shape_of(self.value_type)

    def fact(
        self,
        values: Sequence[T],
        *,
        timestamp: dt.datetime,
        valid_from: dt.datetime | None = None,
        valid_to: dt.datetime | None = None,
    ) -> FactT:
        """Return the fact of this concept with these values, as a provider's ``load`` does.

        Raises:
            InvalidDataError: there are no values, several for a SINGLE concept, or values of another type.
        """
        return self._fact(values, timestamp=timestamp, valid_from=valid_from, valid_to=valid_to)

    @abstractmethod
    def _fact(self, values: Sequence[T], **times: Any) -> FactT:
        """Return what `fact` does."""


def _identity(concept: Concept[Any, Any], value: Any) -> bytes:
    return canonical_bytes(encode_value(value, concept.value_type))


def check_interval(valid_from: dt.datetime | None, valid_to: dt.datetime | None) -> None:
    """Check that an interval does not end before it begins. None leaves an end open.

    Raises:
        InvalidDataError: it ends before it begins.
    """
    if valid_from is not None and valid_to is not None and valid_to < valid_from:
        raise InvalidDataError("valid_to lies before valid_from", path="$.valid_to")


class _Comparable:
    """Equality of facts: by concept, times and the canonical bytes of their values."""

    __slots__ = ()

    def _key(self: Any) -> tuple[object, ...]:
        identities = tuple(_identity(self.concept, value) for value in self.values)
        return (type(self), self.concept, identities, self.timestamp, self.valid_from, self.valid_to)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, _Comparable) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash((self.concept.keyword, self.timestamp))


def _wrong_concept(given: object, takes: str) -> InvalidDataError:
    kind = f"a {given.fact_type.name} one" if isinstance(given, SingleConcept | MultipleConcept) else kind_of(given)
    return InvalidDataError(f"{takes}, not {kind}", path="$.concept")


@attrs.frozen(eq=False)
class SingleFact(_Comparable, Generic[T]):
    """One value of a concept. Two facts are equal if concept, times and the value's canonical bytes are.

    Attributes:
        concept: the concept.
        value: the value.
        timestamp: time when it was said, in UTC; now by default.
        valid_from: time since which it is true, if known.
        valid_to: time until which it is true, if known; reads return it all the same.

    Raises:
        InvalidDataError: the concept is not SINGLE, the value is not of its type, or a time is naive.

    Example:
        >>> fact = SingleFact(Concept.single("seats", "Number of seats", int), 12)
    """

    concept: SingleConcept[T] = attrs.field()
    value: T
    timestamp: dt.datetime = attrs.field(factory=_now, kw_only=True, converter=utc)
    valid_from: dt.datetime | None = attrs.field(default=None, kw_only=True, converter=_true_at)
    valid_to: dt.datetime | None = attrs.field(default=None, kw_only=True, converter=_true_at)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.concept, SingleConcept):
            raise _wrong_concept(self.concept, "a SingleFact takes a SINGLE concept and its value")
        object.__setattr__(self, "value", check_value(self.value, self.concept.value_type))
        check_interval(self.valid_from, self.valid_to)

    @property
    def values(self) -> tuple[T, ...]:
        """The value as a tuple of one, as in `MultipleFacts.values`."""
        return (self.value,)


def _several(values: Sequence[T]) -> tuple[T, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidDataError("the values of MultipleFacts must be a list or tuple", path="$.values")
    return tuple(values)


@attrs.frozen(eq=False)
class MultipleFacts(_Comparable, Generic[T]):
    """A set of values of a concept, in the order first said. Equal values are united.

    Attributes:
        concept: the concept.
        values: the values, at least one.
        timestamp: time when they were said, in UTC; now by default. In a loaded fact, the newest.
        valid_from: time since which they are true, if known.
        valid_to: time until which they are true, if known; reads return them all the same.

    Raises:
        InvalidDataError: the concept is not MULTIPLE, there is no value, one is not of its type, or a time is naive.
    """

    concept: MultipleConcept[T]
    values: tuple[T, ...] = attrs.field(converter=_several)
    timestamp: dt.datetime = attrs.field(factory=_now, kw_only=True, converter=utc)
    valid_from: dt.datetime | None = attrs.field(default=None, kw_only=True, converter=_true_at)
    valid_to: dt.datetime | None = attrs.field(default=None, kw_only=True, converter=_true_at)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.concept, MultipleConcept):
            raise _wrong_concept(self.concept, "MultipleFacts take a MULTIPLE concept and its values")
        value_type = self.concept.value_type
        if not self.values:
            raise InvalidDataError("MultipleFacts need at least one value", path="$.values")
        object.__setattr__(self, "values", self._united([check_value(value, value_type) for value in self.values]))
        check_interval(self.valid_from, self.valid_to)

    def _united(self, values: Sequence[T]) -> tuple[T, ...]:
        if len(values) == 1:  # as in every record
            return tuple(values)
        united: dict[bytes, T] = {}
        for value in values:
            united.setdefault(_identity(self.concept, value), value)
        return tuple(united.values())


@attrs.frozen
class SingleConcept(Concept[T, SingleFact[T]]):
    """A concept with one value at a time."""

    fact_type = FactType.SINGLE

    def _fact(self, values: Sequence[T], **times: Any) -> SingleFact[T]:
        if len(values) != 1:
            raise InvalidDataError(f"a SINGLE concept has exactly one value, not {len(values)}")
        return SingleFact(self, values[0], **times)


@attrs.frozen
class MultipleConcept(Concept[T, MultipleFacts[T]]):
    """A concept with a set of values."""

    fact_type = FactType.MULTIPLE

    def _fact(self, values: Sequence[T], **times: Any) -> MultipleFacts[T]:
        return MultipleFacts(self, tuple(values), **times)


Fact: TypeAlias = SingleFact[T] | MultipleFacts[T]
"""Either kind of fact."""


def stored_fact(
    concept: Concept[Any, Any],
    value: Any,
    *,
    timestamp: dt.datetime,
    valid_from: dt.datetime | None,
    valid_to: dt.datetime | None,
) -> Fact[Any]:
    """Return the fact of one value that a store has checked: texts and whole numbers are not checked again.

    Args:
        concept: the concept.
        value: the value, of the concept's type.
        timestamp: time when it was said, in UTC.
        valid_from: time since which it is true, in UTC; None if open.
        valid_to: time until which it is true, in UTC; None if open.

    Raises:
        InvalidDataError: the value is one of a class, and would not read back unchanged.
    """
    if type(value) not in (str, int, bool) or type(value) is not concept.value_type:
        fact: Fact[Any] = concept.fact([value], timestamp=timestamp, valid_from=valid_from, valid_to=valid_to)
        return fact
    times = {"timestamp": timestamp, "valid_from": valid_from, "valid_to": valid_to}
    if isinstance(concept, SingleConcept):
        return made(SingleFact, concept=concept, value=value, **times)
    return made(MultipleFacts, concept=concept, values=(value,), **times)


class AnyFact(Protocol):
    """A fact of any type: checkers infer the type of one that is made in a call from its concept and its value.

    In the place of ``Fact[Any]`` they would take any value for that of the concept.
    """

    @property
    def concept(self) -> object:
        """The fact's concept."""
        ...

    def _key(self) -> tuple[object, ...]: ...


STATEMENT: Final = Concept.multiple("statement", "Something that was said, in its own words")
"""The built-in concept of free statements, one record each."""


def check_keyword(concept: Concept[Any, Any]) -> None:
    """Check that a concept with the keyword of `STATEMENT`, or an alike one, has its type.

    Raises:
        InvalidDataError: it has another one.
    """
    of_type = (concept.fact_type, concept.shape) == (STATEMENT.fact_type, STATEMENT.shape)
    if folded_keyword(concept.keyword) == STATEMENT.keyword and not of_type:
        raise InvalidDataError(
            f"the keyword {concept.keyword!r} is that of words as they were said, and they would have another type: "
            "choose another one, such as 'bank_statement', or take factmem.STATEMENT",
            path="$.concept",
        )


def check_distinct(concepts: Iterable[Concept[Any, Any]]) -> None:
    """Check that no two of some concepts have the same or alike keywords with different types, and `check_keyword`.

    Raises:
        InvalidDataError: two have, or one has the keyword of `STATEMENT` and another type.
    """
    known: dict[str, Concept[Any, Any]] = {}
    for concept in concepts:
        check_keyword(concept)
        first = known.setdefault(folded_keyword(concept.keyword), concept)
        if (first.fact_type, first.shape) != (concept.fact_type, concept.shape):
            names = " and ".join(dict.fromkeys((repr(first.keyword), repr(concept.keyword))))
            raise InvalidDataError(
                f"two profiles or concepts name {names} with different types: a keyword has one, in any spelling",
                path="$.concepts",
            )
