"""Comments in AGENTS.md are left out; text that only resembles one stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.agent.agents_md import visible

HIDDEN = [
    ("a <!-- x --> b", "a  b"),
    ("a\n<!-- x -->\nb", "a\nb"),
    ("a\r\n  <!-- x -->\t\r\nb", "a\r\nb"),
    ("<!-- x --> <!-- y -->\nb", "b"),
    ("<!--\nmany\n\nlines\n-->\nb", "b"),
    ("a <!-- over\n\nlines --> b", "a  b"),
    ("<!-- ``` -->\nb\n<!-- ``` -->", "b\n"),
    ("<!-->still here", "still here"),
    ("<!--->still here", "still here"),
    ("- a\n  <!-- x -->\n- b", "- a\n- b"),
    ("- a\n\n    <!-- x -->\n\n  b", "- a\n\n\n  b"),
    ("1. a\n\n       code\n\n   <!-- x -->\nb", "1. a\n\n       code\n\nb"),
    ("a\n    <!-- x -->\nb", "a\nb"),
    ("``` not ` a fence\n<!-- x -->\nb", "``` not ` a fence\nb"),
    ("- ```\n  code\n<!-- x -->\nb", "- ```\n  code\nb"),
    ("`a` <!-- x --> `b`", "`a`  `b`"),
    ("` <!-- x -->", "` "),
    ("\\` <!-- x --> `", "\\`  `"),
]
SHOWN = [
    "```\n<!-- x -->\n```",
    "```html\n<!-- x -->\n``\n~~~\n<!-- y -->\n````",
    "~~~ ` html\n<!-- x -->\n```\n<!-- y -->\n~~~",
    "```\n<!-- the fence is never closed -->\n",
    "   ```\n<!-- x -->\n   ```",
    "    <!-- x -->\n",
    "\t<!-- x -->\n\n    <!-- y -->\n",
    "# title\n    <!-- x -->\n",
    "- a\n\n      <!-- x -->\n",
    "- ```\n  <!-- x -->\n  ```\n- b",
    "1. - ~~~\n     <!-- x -->\n     ~~~",
    "`<!-- x -->`",
    "``a ` <!-- x -->``",
    "\\<!-- x -->",
    "write <!-- to begin a comment",
    "plain",
    "",
]


@pytest.mark.parametrize(("text", "left"), HIDDEN)
def test_a_comment_is_left_out(text: str, left: str) -> None:
    assert visible(text).text == left


@pytest.mark.parametrize("text", SHOWN)
def test_what_only_looks_like_a_comment_stays(text: str) -> None:
    assert visible(text).text == text


def test_an_unclosed_comment_hides_the_rest_and_is_reported() -> None:
    found = visible("a\n\n<!-- b\nc\n")
    assert (found.text, found.unclosed_line) == ("a\n\n", 3)


def test_many_openings_take_linear_time() -> None:
    """Each opening is scanned once: the time grows in proportion to their number, not with its square."""
    assert visible("x <!-- " * 50_000).text == "x <!-- " * 50_000
    assert visible("<!----> " * 50_000).text.strip() == ""
    assert visible("` `` " * 20_000).text == "` `` " * 20_000


PIECES = ["<!--", "-->", "```", "~~~", "\n", "\r\n", "    ", "- ", "`", "x", " ", "\t", "# ", ">", "\\", "1. ", "\r"]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_nothing_is_added_or_moved(text: str) -> None:
    """The remaining text is a subsequence of the input, and text without a comment is unchanged."""
    left = iter(text)
    assert all(char in left for char in visible(text).text)
    if "<!--" not in text:
        assert visible(text).text == text
