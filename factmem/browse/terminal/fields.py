"""Fields to type in: they hold the text as it is, show it without hidden characters, and obey keys in their order.

Textual inserts a character when the field reads it, but hands every other key on to the app first. Fast typing, or slow
drawing, then turns "End, Backspace, 5" into "5, End, Backspace"; see https://github.com/Textualize/textual/issues/6605.
So a field runs the actions of its own keys itself, and keys that leave a field have priority: the app obeys them before
it hands the next key to anybody.
"""

from __future__ import annotations

from typing import ClassVar, Final

from rich.highlighter import Highlighter
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingsMap, BindingType
from textual.widgets import Input, TextArea

from factmem.browse.texts import masked

__all__ = ["FIELD_TO_FIELD", "Field", "Lines"]

FIELD_TO_FIELD: Final = (
    Binding("tab", "app.focus_next", show=False, priority=True),
    Binding("shift+tab", "app.focus_previous", show=False, priority=True),
)
"""Keys between the fields of a page."""


class Field(Input):
    """A field of one line; in a dialog, Enter answers it.

    Args:
        value: The text at first.
        id: Name of the field on its page.
        placeholder: Shown while the field is empty.
        whole_number: Whether only digits can be typed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,ctrl+s", "screen.answer", show=False)]
    _KEYS: ClassVar = BindingsMap([*BINDINGS, *Input.BINDINGS])

    def __init__(self, value: str = "", *, id: str, placeholder: str = "", whole_number: bool = False) -> None:
        super().__init__(
            value,
            id=id,
            placeholder=placeholder,
            type="integer" if whole_number else "text",
            highlighter=_Visible(),
            compact=True,
            select_on_focus=False,
        )

    async def on_key(self, event: events.Key) -> None:
        """Obey a key before the next one is read."""
        await _obey(self, self._KEYS, event)


class Lines(TextArea):
    """A field of several lines.

    Args:
        text: The text at first.
        id: Name of the field on its page.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "screen.answer", show=False)]
    _KEYS: ClassVar = BindingsMap([*BINDINGS, *TextArea.BINDINGS])

    def __init__(self, text: str, *, id: str) -> None:
        super().__init__(text, id=id, compact=True, highlight_cursor_line=False)

    def get_line(self, line_index: int) -> Text:
        """Return a line with its hidden characters visible."""
        return Text(masked(self.document.get_line(line_index)), end="", no_wrap=True)

    async def on_key(self, event: events.Key) -> None:
        """Obey a key before the next one is read."""
        await _obey(self, self._KEYS, event)


async def _obey(field: Input | TextArea, keys: BindingsMap, event: events.Key) -> None:
    """Run the action of a key that is the field's own; a disabled field takes no keys."""
    if field.is_disabled:  # the key was pressed after the one that answered the dialog
        event.prevent_default()
    elif bound := keys.key_to_bindings.get(event.key):
        event.stop()
        event.prevent_default()
        await field.app.run_action(bound[0].action, field)


class _Visible(Highlighter):
    """Shows hidden characters of a field as such."""

    def __call__(self, text: str | Text) -> Text:
        """Return a text of the same length without hidden characters."""
        plain_text = text if isinstance(text, str) else text.plain
        return Text(masked(plain_text), no_wrap=True, overflow="ignore", end="")

    def highlight(self, text: Text) -> None:
        """Highlight nothing."""
