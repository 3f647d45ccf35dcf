"""Templates of the pages: everything that is printed is escaped, and hidden characters become visible."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from factmem.browse import record_rows
from factmem.browse.charts import bars_of
from factmem.browse.texts import masked, shown
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject


def address(path: str, **parameters: object) -> str:
    """Return an address on this site, without the parameters that are empty.

    Args:
        path: The path.
        parameters: The query; a true one is ``1``.
    """
    given = {name: "1" if value is True else str(value) for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def render(template: str, data: Mapping[str, Any]) -> str:
    """Return a page.

    Args:
        template: Name of the template.
        data: Its data.
    """
    return _environment().get_template(f"{template}.html").render(**data)


@functools.cache
def _environment() -> Environment:
    """Return the templates beside this module; each is compiled once."""
    made = Environment(
        loader=PackageLoader("factmem.browse.web", "templates"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.tests.update(current=record_rows.is_current, general=record_rows.is_general)
    made.filters.update(
        bars=bars_of,
        cut=_cut,
        day=_day,
        days=_days,
        details=record_rows.details_of,
        exact=escape,  # for an attribute or a text area that is sent back: hidden characters stay
        largest=record_rows.largest,
        lines=lambda text: escape(masked(text)),
        moment=_moment,
        number="{:,}".format,
        percent=_percent,
        quotes=record_rows.quotes_of,
        ranked=record_rows.ranked,
        shape=record_rows.shape_of,
        value=record_rows.value_of,
    )
    made.globals["address"] = lambda path, **parameters: escape(address(path, **parameters))
    return made


def _visible(value: object) -> object:
    """Return a text or a place as `shown` does it; markup is finished already."""
    return shown(str(value)) if type(value) in (str, MemoryScope, MemorySubject) else value


def _day(moment: dt.datetime) -> str:
    return f"{moment.day} {moment:%b %Y}"


def _days(oldest: dt.datetime, newest: dt.datetime) -> str:
    """Return the days from one time to another, naming a year that both share once."""
    if _day(oldest) == _day(newest):
        return _day(newest)
    first = f"{oldest.day} {oldest:%b}" if oldest.year == newest.year else _day(oldest)
    return f"{first} – {_day(newest)}"


def _moment(moment: dt.datetime) -> Markup:
    """Return a time element: the minute in UTC for people, the whole time for machines."""
    return Markup('<time datetime="{}" title="{} UTC">{}, {}</time>').format(
        moment.isoformat(), f"{moment:%Y-%m-%d %H:%M:%S}", _day(moment), f"{moment:%H:%M}"
    )


def _percent(share: float) -> str:
    """Return a share from 0 to 1 as the length of a bar, from 0 to 100."""
    return f"{100 * share:.4g}"


def _cut(text: str, length: int) -> str:
    """Return the beginning of a text, with an ellipsis if there is more."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"
