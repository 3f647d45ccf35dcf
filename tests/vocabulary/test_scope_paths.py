"""Scopes are paths compared segment by segment; names of any script are legal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import InvalidDataError, InvalidNameError
from factmem.legal_names import MAX_NAME_LENGTH, checked_name
from factmem.records import Place
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from factmem.testing import strategies


@given(strategies.scopes(tenants=True))
def test_a_scope_reads_back_from_its_path(scope: MemoryScope) -> None:
    assert MemoryScope.parse(str(scope)) == scope


@given(strategies.scopes(tenants=True), strategies.scopes(tenants=True))
def test_two_scopes_never_share_a_path(left: MemoryScope, right: MemoryScope) -> None:
    assert (str(left) == str(right)) == (left == right)


_SHORT = st.sampled_from(["a", "@a", "%40a", "//a", "//@a", "agent", "%", "/"])
_SMALL = st.builds(
    lambda path, tenant: MemoryScope(ScopeKind.CROSS_PRODUCT, path, tenant=tenant),
    st.lists(_SHORT, max_size=3).map(tuple),
    st.none() | _SHORT,
)


@given(_SMALL, _SMALL)
def test_no_text_form_of_a_scope_loses_its_tenant(left: MemoryScope, right: MemoryScope) -> None:
    """The same holds for a path in a file system, where slashes at the ends are stripped and double ones merged."""
    for form in (str, repr, "{}".format, _as_file):
        assert (form(left) == form(right)) == (left == right)


def _as_file(scope: MemoryScope) -> str:
    return str(PurePosixPath("store", str(scope).strip("/")))


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (MemoryScope.product("alpha").within("acme"), "//%40acme/product/alpha"),
        (MemoryScope.CROSS_PRODUCT.within("acme/eu"), "//%40acme%2Feu/cross-product"),
        (MemoryScope.CROSS_PRODUCT / "@acme" / "x", "/@acme/x"),
    ],
)
def test_an_anchored_scope_is_written_with_its_tenant(scope: MemoryScope, text: str) -> None:
    """A scope without a tenant is written in the old form, so that stores stay readable."""
    assert str(scope) == text


def test_a_tenant_is_read_in_either_spelling() -> None:
    assert MemoryScope.parse("//@acme/product/alpha") == MemoryScope.product("alpha").within("acme")
    assert MemoryScope.parse("/@acme/product") == MemoryScope.CROSS_PRODUCT / "@acme" / "product"


@given(st.text(max_size=30))
def test_a_path_is_read_or_refused_with_a_typed_error(path: str) -> None:
    """An accepted path can never climb."""
    try:
        scope = MemoryScope.parse(path)
    except InvalidNameError:
        return
    assert MemoryScope.parse(str(scope)) == scope


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("/agent/planner", MemoryScope.agent("planner")),
        ("agent/planner/", MemoryScope.agent("planner")),
        ("/feature/search", MemoryScope.feature("search")),
        ("/product/alpha/decisions", MemoryScope.product("alpha") / "decisions"),
        ("/cross-product", MemoryScope.CROSS_PRODUCT),
        ("/customer/acme", MemoryScope.CROSS_PRODUCT / "customer" / "acme"),
        ("/cross-product/agent", MemoryScope.CROSS_PRODUCT / "agent"),
        ("/Agent/x", MemoryScope.CROSS_PRODUCT / "Agent" / "x"),
        ("/product/a%2Fb%25", MemoryScope.product("a/b%")),
        ("/product/%2E%2E", MemoryScope.product("..")),
        ("/product/小明/علي", MemoryScope.product("小明") / "علي"),
    ],
)
def test_paths_name_scopes(path: str, scope: MemoryScope) -> None:
    assert MemoryScope.parse(path) == scope


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "  ", " / ", "//a", "/a//b", "/a/ /b", "/agent", "/product/", "/a/../b", "..", "/agent/..", "/./a",
        "//@", "//@a", "//@a/", "//@a//b", "//@a//@b/c", "//@%FF/a", "//@/a",
        "/product/a/..", "/a/%FF", "/a/%00", "/a/\x00", "/a\n", "/product/" + "n" * 513, None, 5,
    ],
)  # fmt: skip
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidNameError):
        MemoryScope.parse(path)


@given(strategies.scopes(tenants=True), strategies.scopes(tenants=True), strategies.names())
def test_a_scope_contains_its_subtree_and_nothing_else(scope: MemoryScope, other: MemoryScope, name: str) -> None:
    child = scope / name
    assert scope.contains(scope)
    assert scope.contains(child)
    assert scope.contains(child / name)
    assert not child.contains(scope)
    climbing: MemoryScope | None = other
    while climbing is not None and climbing != scope:
        climbing = climbing.parent
    assert scope.contains(other) == (climbing == scope)


def test_a_common_beginning_of_names_is_not_containment() -> None:
    project = MemoryScope.parse("/project/a")
    assert not project.contains(MemoryScope.parse("/project/ab"))
    assert not project.contains(MemoryScope.parse("/project"))
    assert not project.contains(project.within("acme"))
    assert not MemoryScope.CROSS_PRODUCT.contains(MemoryScope.product("a"))


@given(strategies.scopes(tenants=True), strategies.names())
def test_the_parent_of_a_child_is_the_scope(scope: MemoryScope, name: str) -> None:
    assert (scope / name).parent == scope


def test_branches_end_at_their_names() -> None:
    assert MemoryScope.agent("x").parent is None
    assert MemoryScope.CROSS_PRODUCT.parent is None
    assert (MemoryScope.CROSS_PRODUCT / "x").parent == MemoryScope.CROSS_PRODUCT


def test_narrow_scopes_sort_before_broad_ones() -> None:
    product = MemoryScope.product("p")
    broad_to_narrow = [
        MemoryScope.CROSS_PRODUCT,
        MemoryScope.CROSS_PRODUCT / "x",
        product,
        product / "child",
        MemoryScope.feature("f"),
        MemoryScope.agent("a"),
    ]
    assert sorted(broad_to_narrow, key=lambda scope: scope.narrowness) == broad_to_narrow[::-1]


@pytest.mark.parametrize("kind", [ScopeKind.AGENT, ScopeKind.FEATURE, ScopeKind.PRODUCT])
def test_a_whole_branch_contains_its_scopes_and_holds_no_facts_itself(kind: ScopeKind) -> None:
    branch = MemoryScope(kind)
    assert branch.is_branch
    for path in (str(branch), f"{branch}/", kind.value):
        assert MemoryScope.subtree(path) == branch
    assert branch.contains(MemoryScope(kind, ("a", "b")))
    assert not any(branch.contains(MemoryScope(other, ("a",))) for other in ScopeKind if other is not kind)
    refusals: list[Callable[[], object]] = [
        branch.checked,
        lambda: MemoryScope.parse(str(branch)),
        lambda: Place(MemorySubject.EVERYTHING, branch),
    ]
    for refused in refusals:
        with pytest.raises(InvalidNameError, match="needs a name"):
            refused()


def test_only_a_slash_is_the_whole_tree_and_other_paths_are_read_as_ever() -> None:
    assert MemoryScope.subtree("/") is None
    assert MemoryScope.subtree("/product/a") == MemoryScope.product("a")
    assert MemoryScope.subtree("/cross-product") == MemoryScope.CROSS_PRODUCT
    assert not MemoryScope.CROSS_PRODUCT.is_branch
    for path in ("", "//", " / ", "/product/..", "product//"):
        with pytest.raises(InvalidNameError):
            MemoryScope.subtree(path)


def test_a_scope_is_built_of_a_kind_and_segments() -> None:
    wrong: Any = "agent"
    with pytest.raises(InvalidDataError):
        MemoryScope(wrong, ("x",))
    with pytest.raises(InvalidNameError):
        MemoryScope(ScopeKind.AGENT, wrong)


@pytest.mark.parametrize(
    "name", ["", " ", "\t", "a\x00", "a\nb", "\x7f", "\x85", "\ud800", "n" * (MAX_NAME_LENGTH + 1), None, 5, b"x"]
)
def test_an_illegal_name_is_refused_everywhere(name: Any) -> None:
    makers = (
        MemoryScope.agent,
        MemoryScope.CROSS_PRODUCT.__truediv__,
        lambda name: MemoryScope.CROSS_PRODUCT.within(name if name is not None else ""),
        MemorySubject,
        lambda name: MemorySubject("user").individual(name if name is not None else ""),
        lambda name: checked_name(name, what="a name"),
    )
    for make in makers:
        with pytest.raises(InvalidNameError):
            make(name)


@pytest.mark.parametrize("name", ["小明", "علي", "김철수", "👩‍🚀", "..", "a/b", "n" * MAX_NAME_LENGTH, "e\u0301"])
def test_a_legal_name_stays_as_it_is(name: str) -> None:
    assert checked_name(name, what="a name") == name


def test_a_subject_narrowed_to_an_individual_is_another_subject() -> None:
    user = MemorySubject("user", "the person", priority_level=1)
    alice = user.individual("alice")
    assert alice.key != user.key
    assert alice.key != MemorySubject("user:alice").key
    assert (alice.priority_level, alice.prompt_description) == (1, "the person")


@pytest.mark.parametrize("priority", [-1, 2**31, 1.5, True, "1", None])
def test_a_priority_is_a_whole_number_in_range(priority: Any) -> None:
    with pytest.raises(InvalidDataError):
        MemorySubject("user", priority_level=priority)


@given(strategies.subjects())
def test_no_subject_is_weaker_than_everything(subject: MemorySubject) -> None:
    assert MemorySubject.EVERYTHING.priority_level >= subject.priority_level
    assert MemorySubject("user").priority_level < MemorySubject.EVERYTHING.priority_level
