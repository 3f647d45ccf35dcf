"""Values as text for people, and what people type as values."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import json
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from factmem.changes import Change
from factmem.errors import InvalidDataError
from factmem.hidden_characters import HIDDEN
from factmem.records import AssertionState
from factmem.shapes import check_fits, shape_of, words_for
from factmem.value_types import JSON_SHAPE, Scalar, scalar_named, scalar_of
from factmem.values import decode_value

_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Categories of control characters, of those that format or change the direction, and of odd line ends."""
_JSON: Final = scalar_named(JSON_SHAPE)

_SHOWN_OF_AN_ID: Final = 8
"""Length of a shortened id that is shown. In a small store half of it suffices."""

_COUNTED: Final = 12
"""Number of digits at the beginning of many ids that count the records of the store; the others are random."""


def masked(text: str) -> str:
    """Return a text of the same length with each control and hidden character visible; tabs and line ends stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\ufffd" if char not in "\t\n" and unicodedata.category(char) in ("Cc", "Cs") else char
        for char in HIDDEN.sub(lambda found: "\ufffd" * len(found[0]), text)
    )


def escaped_json(text: str) -> str:
    """Return JSON with each character that a terminal obeys or does not show as an escape of JSON."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        json.dumps(char)[1:-1] if char != "\n" and unicodedata.category(char) in _UNSEEN else char for char in text
    )


def shown(text: str) -> str:
    """Return a text as one line, with control and hidden characters made visible."""
    return masked(" ".join(text.split()))


def moment(at: dt.datetime | None) -> str:
    """Return a time in UTC to the minute; empty for none."""
    return f"{at:%Y-%m-%d %H:%M}" if at else ""


def short_id(id: str) -> str:
    """Return the digits of an id to show in a listing: the first ones that tell it from others."""
    return shown(telling_end(id)[:_SHOWN_OF_AN_ID])


def telling_end(id: str) -> str:
    """Return the part of an id that tells it from others."""
    return id.rpartition("-")[2] if "-" in id else id[_COUNTED:] or id


def counted(number: int, what: str, many: str | None = None) -> str:
    """Return a number with its noun: ``1 record``, ``2,000 records``."""
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


APART: Final = (AssertionState.QUARANTINED, AssertionState.RETRACTED)
"""States of a wish to forget that was not carried out: it waits on, or stays rejected."""


def accepted(done: Sequence[Change]) -> str:
    """Return a sentence on accepted records, and on what the wishes to forget among them took back."""
    own = [change for change in done if change.previous is not None]
    waiting = sum(change.record.state in APART for change in own)
    parts = [f"{counted(len(own) - waiting, 'record')} accepted"]
    if gone := len(done) - len(own):
        parts.append(f"{counted(gone, 'record')} forgotten as asked")
    if waiting:
        parts.append(f"{waiting:,} still to wait: nothing that is known is meant")
    return f"{', '.join(parts)}."


def parsed_value(text: str, wanted: Scalar) -> Any:
    """Parse a value of a scalar type.

    Raises:
        InvalidDataError: The text is not a value of the type.
    """
    try:
        return wanted.parse(text) if wanted.parse is not None else wanted.read(json.loads(text))
    except (ValueError, OverflowError, RecursionError):
        raise InvalidDataError(
            f"the value is not a valid {wanted.shape} ({wanted.words}): correct it, or choose another type"
        ) from None


def typed_value(text: str, value_type: Any) -> Any:
    """Parse a value of a concept's type: of a scalar type as `parsed_value` does it, otherwise as JSON or as it stands.

    Raises:
        InvalidDataError: The text is not a value of the type. The error describes its values.
    """
    if (scalar := scalar_of(value_type)) is not None:
        return parsed_value(text, scalar)
    shape = shape_of(value_type)
    for read in (functools.partial(parsed_value, wanted=_JSON), str):
        with contextlib.suppress(InvalidDataError):
            data = read(text)
            check_fits(data, shape)
            return decode_value(data, value_type)
    raise InvalidDataError(f"the value is not of the concept's type ({words_for(shape)})")
