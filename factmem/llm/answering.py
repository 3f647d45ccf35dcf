"""The form of a model's answers: their keys, and lists of which each item is read by itself.

This module imports pydantic, which loads slowly. Import it together with a response model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, TypeVar

import attrs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

T = TypeVar("T")

# What is made here at run time, no type checker can know.
_Dynamic: TypeAlias = Any

_FAILURES: Final = frozenset({"error", "errors", "exception", "failure"})
"""Keys of reports of failure by endpoints and models; they never wrap an answer."""
MOST_ITEMS: Final = 1_000
"""Maximum number of items of a list that are read."""
_LONGEST: Final = 3
"""Maximum number of flaws quoted when the model is asked again."""


@attrs.frozen
class Flaw:
    """A fault in an item.

    Attributes:
        where: the path within the item.
        what: the broken rule; never the value.
    """

    where: tuple[int | str, ...]
    what: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.where)) or 'item'}: {self.what}"


class ValidItems(list[T]):
    """The valid items of a list.

    Attributes:
        dropped: the flaws of each item that was left out.
        excess: number of items behind the last one that was read.
    """

    dropped: tuple[tuple[Flaw, ...], ...] = ()
    excess: int = 0


class ModelAnswer(BaseModel):
    """An answer that is an object with at least one of the expected keys.

    An object is taken out of a wrapper: ``{"result": {…}}``, ``[{…}]``. An answer with an invalid item and no valid one
    in any list is refused, so that the model is asked again. One built without arguments has empty lists.

    The context of a validation may hold ``last_try``: whether the model is not asked again.
    """

    may_lose_all: ClassVar[bool] = False
    """Whether the last try may leave no valid item: the flawed ones are dropped."""

    tolerated_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys that identify an answer as well, though this response model does not read them."""

    @model_validator(mode="before")
    @classmethod
    def _read_shape(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(data, BaseModel) or (data == {} and info.mode == "python"):
            return data
        return in_shape(data, cls, tolerated=cls.tolerated_keys)

    @model_validator(mode="after")
    def _check_something_is_left(self, info: ValidationInfo) -> Self:
        if self.may_lose_all and (info.context or {}).get("last_try"):
            return self
        lists = [value for _, value in self if isinstance(value, list)]
        flaws = [flaw for items in lists if isinstance(items, ValidItems) for item in items.dropped for flaw in item]
        if flaws and not any(lists):
            quoted = "; ".join(map(str, flaws[:_LONGEST]))
            raise PydanticCustomError("no_valid_item", "no item is valid: {flaws}", {"flaws": quoted})
        return self


def in_shape(data: object, model: type[BaseModel], *, tolerated: Collection[str] = ()) -> Mapping[str, Any]:
    """Return the object of an answer, taken out of a single wrapper.

    Args:
        data: the JSON of the answer.
        model: the response model, with the expected keys.
        tolerated: keys that identify an answer as well, though nothing is read from them.

    Raises:
        PydanticCustomError: no expected key is there, or several objects have some.
    """
    keys = [field.alias or name for name, field in model.model_fields.items()]
    found = [item for item in _within(data) if any(key in item for key in (*keys, *tolerated))]
    if isinstance(data, Mapping) and found[:1] == [data]:
        return data
    if len(found) == 1:
        return found[0]
    wanted = ", ".join(keys)
    raise PydanticCustomError("answer_shape", "expected one object with the keys {keys}", {"keys": wanted})


def _within(data: object) -> Iterator[Mapping[str, Any]]:
    """Yield an object, then the objects directly in it or in a list."""
    if isinstance(data, Mapping):
        yield data
        yield from (item for key, item in data.items() if key not in _FAILURES and isinstance(item, Mapping))
    elif isinstance(data, list):
        yield from (item for item in data if isinstance(item, Mapping))


def listed(data: object) -> list[Any]:
    """Return a list: an empty one for nothing, a list of one for a single item."""
    if data is None or (isinstance(data, Mapping) and not data):
        return []
    return list(data) if isinstance(data, list | tuple) else [data]


def each(item: _Dynamic, *, most: int = MOST_ITEMS, needs_one: bool = False) -> _Dynamic:
    """Return the type of a list whose invalid items are left out. It is read as a `ValidItems`.

    Args:
        item: the type of its items.
        most: maximum number of items that are read. The others are counted, and cost nothing.
        needs_one: refuse a list without a valid item, unless it is empty.
    """
    kept: Callable[[list[Any]], ValidItems[Any]] = _some_kept if needs_one else _kept
    each_item: _Dynamic = Annotated[item, WrapValidator(_or_flaws)]
    return Annotated[list[each_item], BeforeValidator(functools.partial(_cut, most)), AfterValidator(kept)]


@attrs.frozen
class _Excess:
    """Stands for the items behind the last one that is read."""

    number: int


def _cut(most: int, data: object) -> object:
    """Return a list of at most ``most`` items, and the number of the others."""
    if isinstance(data, list | tuple) and len(data) > most:
        return [*data[:most], _Excess(len(data) - most)]
    return listed(data)


@attrs.frozen
class _Invalid:
    flaws: tuple[Flaw, ...]


def _or_flaws(data: Any, read: Callable[[Any], Any]) -> Any:
    if isinstance(data, _Excess):
        return data
    try:
        return read(data)
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False, include_context=False)
        return _Invalid(tuple(Flaw(item["loc"], item["msg"]) for item in wrong))


def _kept(items: list[Any]) -> ValidItems[Any]:
    kept: ValidItems[Any] = ValidItems(item for item in items if not isinstance(item, _Invalid | _Excess))
    kept.excess = sum(item.number for item in items[-1:] if isinstance(item, _Excess))
    kept.dropped = tuple(item.flaws for item in items if isinstance(item, _Invalid))
    return kept


def _some_kept(items: list[Any]) -> ValidItems[Any]:
    kept = _kept(items)
    if kept.dropped and not kept:
        quoted = "; ".join(str(flaw) for item in kept.dropped[:_LONGEST] for flaw in item)
        raise PydanticCustomError("no_valid_value", "no value is valid: {flaws}", {"flaws": quoted})
    return kept
