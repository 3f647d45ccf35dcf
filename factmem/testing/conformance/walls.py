"""Specs: a place is a partition; facts saved in one are visible in no other."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from factmem.abc import AgentMemoryProvider
from factmem.errors import InvalidNameError
from factmem.facts import STATEMENT, Concept, Fact, FactT
from factmem.memory import Memory, Unrepresented
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import CITY, PLANNER, USER, multiple, single
from factmem.testing.embedders import HashEmbedder

__all__ = ["WallSpecs"]

_HOSTILE_NAMES: Final = (
    ".", "..", "...", "../..", "..\\..", "/", "//", "a/b", "a\\b", "/etc/passwd", "C:\\x", "~", "$HOME", "`id`",
    "%", "%2F", "%2e%2e", "%00", "100%", "_", "a_b", "axb", "*", "?", "'", "''", '"', "';--", "a b", " a", "a ", "a.",
    "a", "A", "ab", "CON", "con", "nul.txt", "-rf", "#x", "a:b", "a|b", "a@b", "a&b", "a=b", "[a]", "{a}", "<a>",
    "é", "e\u0301", "É", "ﬁ", "fi", "ß", "ss", "ı", "i", "I", "İ", "小明", "김철수", "علي", "עברית", "ไทย", "👩",
    "👩‍🚀", "\u200d", "\u202eabc", "\u00a0x", "None", "null",
    "default", "cross-product", "agent", "everything", "0", "00", "1e3",
    "n" * 512, "n" * 511, "N" * 512, "界" * 512, "👩" * 512,
)  # fmt: skip
"""Names that a careless store splits, conflates, or passes on to a file system or a query."""

_Where = tuple[MemorySubject, MemoryScope]

_ALPHA: Final = MemoryScope.product("alpha")
_ROOT: Final = MemoryScope.CROSS_PRODUCT


async def _assert_walled(provider: AgentMemoryProvider, places: Sequence[_Where]) -> None:
    """Save another value of one concept in every place, and read each back by every read path."""
    facts = [single(CITY, f"city {number}", number) for number in range(len(places))]
    for fact, (subject, scope) in zip(facts, places, strict=True):
        await provider.save(fact, subject, scope)
    for fact, (subject, scope) in zip(facts, places, strict=True):
        assert await provider.load(CITY, subject, scope) == fact, (subject, scope)
        assert list(await provider.load_all(subject, scope)) == [fact], (subject, scope)
        assert list(await provider.load_by_description("city", subject, scope)) == [fact], (subject, scope)


class _FourVerbs(AgentMemoryProvider):
    """A provider that shows the engine its four verbs only."""

    def __init__(self, provider: AgentMemoryProvider) -> None:
        self._provider = provider

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        await self._provider.save(fact, subject, scope)

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        return await self._provider.load(concept, subject, scope)

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        return await self._provider.load_all(subject, scope)

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        return await self._provider.load_by_description(description, subject, scope)


def _memory(provider: AgentMemoryProvider, tenant: str | None, scopes: Sequence[MemoryScope]) -> Memory:
    return Memory(provider, organization=tenant, subjects=[USER], scopes=scopes, embedder=HashEmbedder())


class WallSpecs(ProviderCase):
    """Specs of tenants, scopes, subjects and individuals, with hostile names."""

    async def test_tenants_are_walls(self, provider: AgentMemoryProvider) -> None:
        tenants = (None, "acme", "Acme", "acme/eu", "None", "default", "null", "agent", "..")
        await _assert_walled(provider, [(USER, PLANNER.within(tenant)) for tenant in tenants])

    async def test_a_tenant_is_no_segment_of_a_path(self, provider: AgentMemoryProvider) -> None:
        """A key that joins the tenant to the path, or omits it in some branch, mixes some of these."""
        inside = (
            _ROOT,
            _ROOT / "x",
            *(MemoryScope(kind, ("x",)) for kind in ScopeKind),
            MemoryScope.product("x") / "y",
        )
        outside = (
            _ROOT / "acme" / "x",
            _ROOT / "acme" / "product" / "x",
            _ROOT / "@acme" / "x",
            _ROOT / "%40acme" / "x",
        )
        places = [scope.within(tenant) for tenant in (None, "acme", "@acme", "acme/product") for scope in inside]
        await _assert_walled(provider, [(USER, scope) for scope in dict.fromkeys((*places, *outside))])

    async def test_organizations_are_walls_for_memories_over_one_provider(self, provider: AgentMemoryProvider) -> None:
        """This holds whether the provider builds its key from the text of the scope or from its fields."""
        tenants, scopes = ("acme", "beta", None), (_ALPHA, _ROOT / "acme" / "product" / "alpha")
        memories = {tenant: _memory(_FourVerbs(provider), tenant, scopes) for tenant in tenants}
        for tenant, memory in memories.items():
            for number, scope in enumerate(scopes):
                await memory.save(single(CITY, f"{tenant} {number}"), subject=USER, scope=scope)
        for tenant, memory in memories.items():
            for number, scope in enumerate(scopes):
                assert await memory.load(CITY, subject=USER, scope=scope) == single(CITY, f"{tenant} {number}")
            mine = {f"{tenant} {number}" for number in range(len(scopes))}
            assert {record.value for record in await memory.list_records()} == mine
            assert {match.record.value for match in await memory.recall("city acme beta", limit=9)} == mine

    async def test_words_are_statements_of_their_own_organization(self, provider: AgentMemoryProvider) -> None:
        """Words go through the four verbs, one value each; details that these cannot carry are counted."""
        for tenant in ("acme", "beta"):
            memory = _memory(_FourVerbs(provider), tenant, (_ALPHA,))
            outcome = await memory.remember(f"The roof of {tenant} leaks.", subject=USER, scope=_ALPHA)
            assert outcome.unrepresented == {Unrepresented.EVIDENCE: 1}
        for tenant in ("acme", "beta"):
            found = await provider.load(STATEMENT, USER, _ALPHA.within(tenant))
            assert found is not None
            assert list(found.values) == [f"The roof of {tenant} leaks."]

    async def test_kinds_with_the_same_name_are_walls(self, provider: AgentMemoryProvider) -> None:
        await _assert_walled(provider, [(USER, MemoryScope(kind, ("alpha",))) for kind in ScopeKind])

    async def test_parent_and_child_scopes_are_walls(self, provider: AgentMemoryProvider) -> None:
        scopes = (_ALPHA, _ALPHA / "decisions", _ALPHA / "decisions" / "2024", _ALPHA / "2024")
        await _assert_walled(provider, [(USER, scope) for scope in scopes])

    async def test_sibling_scopes_with_a_common_prefix_are_walls(self, provider: AgentMemoryProvider) -> None:
        project = _ROOT / "project"
        scopes = (project / "a", project / "ab", project / "a" / "b", project / "a b", _ROOT / "projecta")
        await _assert_walled(provider, [(USER, scope) for scope in scopes])

    async def test_one_segment_with_a_slash_is_not_two_segments(self, provider: AgentMemoryProvider) -> None:
        scopes = (_ROOT / "a/b", _ROOT / "a" / "b", _ROOT / "a%2Fb", _ROOT / "a" / "/b", _ROOT / "a/" / "b")
        await _assert_walled(provider, [(USER, scope) for scope in scopes])

    async def test_cross_product_is_a_branch_beside_the_others(self, provider: AgentMemoryProvider) -> None:
        scopes = (_ROOT, _ROOT / "agent", _ROOT / "agent" / "x", MemoryScope.agent("x"), _ROOT / "cross-product")
        await _assert_walled(provider, [(USER, scope) for scope in scopes])

    async def test_subjects_are_walls(self, provider: AgentMemoryProvider) -> None:
        subjects = (USER, MemorySubject("User"), MemorySubject("users"), MemorySubject.EVERYTHING)
        await _assert_walled(provider, [(subject, PLANNER) for subject in subjects])

    async def test_individuals_are_walls(self, provider: AgentMemoryProvider) -> None:
        """Reading a subject never reads an individual, nor the reverse, whatever their names are."""
        subjects = (
            USER,
            USER.individual("alice"),
            USER.individual("bob"),
            USER.individual("user"),
            MemorySubject("user:alice"),
            MemorySubject("alice"),
            MemorySubject("user/alice"),
            MemorySubject("user:alice").individual("bob"),
            MemorySubject("user").individual("alice:bob"),
        )
        await _assert_walled(provider, [(subject, PLANNER) for subject in subjects])

    async def test_a_subject_is_known_by_its_name_alone(self, provider: AgentMemoryProvider) -> None:
        """A subject with another description or priority is the same one."""
        await provider.save(single(CITY, "Oslo"), USER, PLANNER)
        same = MemorySubject("user", "described anew", priority_level=99)
        assert await provider.load(CITY, same, PLANNER) == single(CITY, "Oslo")

    async def test_a_keyword_has_its_own_type_in_every_place(self, provider: AgentMemoryProvider) -> None:
        other = Concept.multiple(CITY.keyword, "Cities", int)
        await provider.save(single(CITY, "Oslo"), USER, PLANNER)
        await provider.save(multiple(other, 1, 2), USER, PLANNER / "child")
        await provider.save(multiple(other, 3), USER, PLANNER.within("acme"))
        assert await provider.load(CITY, USER, PLANNER) == single(CITY, "Oslo")
        assert await provider.load(other, USER, PLANNER / "child") == multiple(other, 1, 2)

    async def test_the_same_fact_at_names_that_look_alike_is_kept_in_each(self, provider: AgentMemoryProvider) -> None:
        """Two names are the same only if they are equal; normal forms apply to values, never to names."""
        for composed, decomposed in [("é", "e\u0301"), ("\ufb01", "fi"), ("한", "\u1112\u1161\u11ab")]:
            for name in (composed, decomposed):
                await provider.save(single(CITY, "Oslo"), MemorySubject(name), PLANNER)
                await provider.save(single(CITY, "Oslo"), USER, MemoryScope.product(name))
                await provider.save(single(Concept.single(name, "d"), "Oslo"), USER, PLANNER)
            for name in (composed, decomposed):
                assert await provider.load(CITY, MemorySubject(name), PLANNER) == single(CITY, "Oslo")
                assert await provider.load(CITY, USER, MemoryScope.product(name)) == single(CITY, "Oslo")
                assert await provider.load(Concept.single(name, "d"), USER, PLANNER) is not None

    async def test_hostile_scope_names_are_names(self, provider: AgentMemoryProvider) -> None:
        await _assert_walled(provider, [(USER, MemoryScope.product(name)) for name in _HOSTILE_NAMES])

    async def test_hostile_child_scope_names_are_names(self, provider: AgentMemoryProvider) -> None:
        await _assert_walled(provider, [(USER, _ROOT / "x" / name) for name in _HOSTILE_NAMES])

    async def test_hostile_subject_names_are_names(self, provider: AgentMemoryProvider) -> None:
        await _assert_walled(provider, [(MemorySubject(name), PLANNER) for name in _HOSTILE_NAMES])

    async def test_hostile_individual_names_are_names(self, provider: AgentMemoryProvider) -> None:
        await _assert_walled(provider, [(USER.individual(name), PLANNER) for name in _HOSTILE_NAMES])

    async def test_hostile_tenant_names_are_names(self, provider: AgentMemoryProvider) -> None:
        await _assert_walled(provider, [(USER, PLANNER.within(name)) for name in _HOSTILE_NAMES])

    async def test_hostile_keywords_are_keys_of_their_own(self, provider: AgentMemoryProvider) -> None:
        facts = [single(Concept.single(name, "d", int), number, number) for number, name in enumerate(_HOSTILE_NAMES)]
        for fact in facts:
            await provider.save(fact, USER, PLANNER)
        assert list(await provider.load_all(USER, PLANNER)) == facts
        for fact in facts:
            assert await provider.load(fact.concept, USER, PLANNER) == fact

    async def test_names_that_no_store_can_carry_never_reach_it(self, provider: AgentMemoryProvider) -> None:
        for name in ("", " ", "a\x00b", "a\nb", "\ud800", "n" * 513):
            with pytest.raises(InvalidNameError):
                await provider.save(single(CITY, "Oslo"), USER, MemoryScope.product(name))
            with pytest.raises(InvalidNameError):
                await provider.save(single(CITY, "Oslo"), USER.individual(name), PLANNER)
        assert list(await provider.load_all(USER, PLANNER)) == []
