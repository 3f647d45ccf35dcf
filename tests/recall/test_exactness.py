"""Recall returns the true best of the whole store, compared with a naive sort that shares no code with it."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import factmem.recall
from factmem import MemoryScope, RecallMatch, RecallSettings
from factmem.recall import Boost
from factmem.recall.index import vector_slots
from factmem.recall.text.analysis import analyse
from factmem.recall.text.signs import Whom, asked_terms, asks_for_present, tells_of_whom
from factmem.recall.text.updates import matter_of, overtakes
from factmem.sentences import names_and_figures
from factmem.testing import HashEmbedder
from tests.recall.generated import Said, filled, queries, stores, weights

pytestmark = pytest.mark.slow

ASKING = {"mani"}
"""The stems of question words in the generated queries."""

TRAVELLING = {"trip", "travel"}
"""The stems of words in the generated queries that have the topic of the generated facts."""


@functools.cache
def relations() -> Mapping[int, Mapping[int, float]]:
    """The table in the package."""
    with np.load(Path(factmem.recall.__file__).parent / "text" / "related_words.npz") as table:
        terms, ends = table["terms"].tolist(), np.cumsum(table["counts"]).tolist()
        pairs = list(zip([terms[at] for at in table["related"].tolist()], table["weights"].tolist(), strict=True))
        starts = [0, *ends]
        return {
            term: {other: weight / 256 for other, weight in pairs[start:end]}
            for term, start, end in zip(terms, starts, ends, strict=False)
        }


def number(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


def occurrences(term: str, document: Sequence[str]) -> float:
    """Return the occurrences of a term in a document, related words included."""
    if term in TRAVELLING:
        return sum(1.0 for other in document if other == "#travel") + _occurrences(term, document)
    return _occurrences(term, document)


def _occurrences(term: str, document: Sequence[str]) -> float:
    near = relations().get(number(term), {})
    return sum(1.0 if other == term else near.get(number(other), 0.0) for other in document)


def weight(term: str, documents: Sequence[list[str]]) -> float:
    """Return the idf of a term."""
    n, df = len(documents), sum(min(occurrences(term, document), 1) for document in documents)
    return math.log(1 + (n - df + 0.5) / (df + 0.5))


def naive_bm25(query: Sequence[str], documents: Sequence[list[str]]) -> list[float]:
    """Return each document's share of the attainable BM25, term by term, as in textbooks."""
    n = len(documents)
    average = sum(map(len, documents)) / max(n, 1) or 1
    attainable, scores = 1e-9, [0.0] * n
    for term in dict.fromkeys(query):
        held = [occurrences(term, document) for document in documents]
        idf = weight(term, documents) * (0.5 if term in ASKING else 1)
        attainable += idf
        for row, (tf, document) in enumerate(zip(held, documents, strict=True)):
            scores[row] += idf * tf / (tf + 0.5 * (0.5 + 0.5 * len(document) / average)) if tf else 0
    return [score / attainable for score in scores]


def naive_fit(asked: Sequence[str]) -> tuple[float, float]:
    """Return how far a query asks for the only concept, whose words are its one document, and how far it names it."""
    held = {term: min(max(occurrences(term, [word]) for word in ("trip", "note", "#travel")), 1.0) for term in asked}
    idf = {term: math.log(1 + (1.5 - of) / (of + 0.5)) * (0.5 if term in ASKING else 1) for term, of in held.items()}
    attainable = sum(idf.values()) or 1.0
    named = idf["trip"] + idf["note"] if {"trip", "note"} <= idf.keys() else 0.0
    return sum(idf[term] * of for term, of in held.items()) / attainable, named / attainable


async def naive(store: Sequence[Said], query: str, viewer: str | None, weigh: RecallSettings) -> dict[str, float]:
    """Score every record that the viewer sees, one by one, by the written formula."""
    seen = [(seq, said) for seq, said in enumerate(store) if said.owner in (None, viewer)]
    groups: dict[object, list[tuple[int, Said]]] = {}
    for seq, said in seen:
        alone = said.conversation is None
        place_of = (said.conversation, said.scope, said.owner, said.subject)
        groups.setdefault(("alone", seq) if alone else place_of, []).append((seq, said))
    for group in groups.values():
        group.sort(key=lambda item: (-item[1].age_days, item[1].position, item[0]))
    place = {seq: (key, row) for key, group in groups.items() for row, (seq, _) in enumerate(group)}
    terms = {seq: said.terms for seq, said in seen}
    order = [seq for seq, _ in seen]

    def exchange(seq: int) -> list[str]:
        key, row = place[seq]
        return [term for other, _ in groups[key][max(row - 1, 0) : row + 2] for term in terms[other]]

    sessions = {key: [term for seq, _ in group for term in terms[seq]] for key, group in groups.items()}
    asked = asked_terms(query)
    own = dict(zip(order, naive_bm25(asked, [terms[seq] for seq in order]), strict=True))
    near = dict(zip(order, naive_bm25(asked, [exchange(seq) for seq in order]), strict=True))
    whole = dict(zip(sessions, naive_bm25(asked, list(sessions.values())), strict=True))
    embedder = HashEmbedder()
    named = {said.leads for _, said in seen if said.leads in asked}
    first, *others = query.split()
    short_query = " ".join([first, *(word for word in others if word != "Zoe")])
    full, short, *rows = await embedder.embed([query, short_query, *(said.indexed for _, said in seen)])
    asking = (full + short) / np.linalg.norm(full + short) if "Zoe" in others and "zoe" in named else full
    cosines = {seq: max(float(np.dot(asking, row)), 0) for seq, row in zip(order, rows, strict=True)}
    names = [*analyse(viewer or ""), *named]
    strangers = [term for term in analyse("Zoe") if "Zoe" in others and term not in names]
    fit, by_name = naive_fit([term for term in dict.fromkeys(asked) if term not in named])
    lexical_weight = 0.35 if weigh.lexical_weight is None else weigh.lexical_weight
    unrelated = weigh.unrelated or 0.0
    individuals_only = all(said.about for _, said in seen if said.typed)
    scores: dict[int, float] = {}
    for seq, said in seen:
        key, row = place[seq]
        group = groups[key]
        share, context = own[seq], 0.0
        meaning = cosines[seq]
        if len(group) > 1:
            context = 20 / (20 + len(terms[seq]))
            beside = [cosines[other] for other, _ in group[max(row - 1, 0) : row + 2]]
            around, mean = near[seq] + whole[key], sum(beside) / len(beside)
            if row and (group[row - 1][1].asks or (said.assistant and not group[row - 1][1].assistant)):
                before = group[row - 1][0]
                answered = 20 / (20 + len(terms[before]))
                around += answered * own[before]
                mean += answered * max(cosines[before] - unrelated, 0)
            share = min((share + context * around) / (1 + 2 * context), 1)
            meaning = min((meaning + context * mean) / (1 + context), 1)
        meaning = max(meaning - unrelated, 0) / (1 - unrelated)
        telling = lexical_weight * (1 if len(group) > 1 else 0.5) * (1 + 2 * context)
        meant = (1 - lexical_weight) * (1 + context)
        alike = (telling * share + meant * meaning) / (telling + meant)
        by_words = lexical_weight > 0
        lead = by_words and said.leads in asked
        somebody_elses = not (viewer is None and individuals_only) and said.about not in (None, viewer)
        somebody_elses = somebody_elses and "who" not in query.split()

        def is_meant(by: Said) -> bool:
            return by.leads in asked or (by.about is None and bool(named.intersection(analyse(viewer or ""))))

        meant = by_words and is_meant(said)
        other = said.typed and (not meant if named else somebody_elses)
        strange = said.typed and bool(strangers) and not any(occurrences(term, terms[seq]) for term in strangers)
        other = other or strange
        wants_number = "how many" in query
        for sign in (lead and not other, wants_number and said.holds_number):
            alike += 0.5 * alike * (1 - alike) * sign
        if said.changes and asks_for_present(query):
            alike += 0.35 * alike * (1 - alike) * 20 / (20 + len(terms[seq]))
        alike *= 0.75 if said.assistant else 1
        if len(terms[seq]) < 16:
            alike *= 0.25 if said.asks and not said.typed else 1 if said.tells else 0.75
        if by_words and said.typed:
            alike += 0 if other else 0.4 * fit * (1 - alike)
            name = 0 if strange else by_name
            alike += name * (1 - alike)
            alike *= 0.5 + 0.25 * name if other else 1
        present = any(is_meant(other) for _, other in group if not other.typed)
        if by_words and not said.typed and (named or strangers) and not present:
            alike *= 0.5 if tells_of_whom(said.text) is Whom.SPEAKER else 1
        recency = 0.5 ** (said.age_days / weigh.half_life_days)
        scores[seq] = mixed(alike, recency, said.importance, weigh)
    if asks_for_present(query):
        scores = lifted(seen, scores)
    return {
        f"{said.owner} {said.scope} {said.text}": score
        for (_, said), score in zip(seen, newest_first(seen, scores).values(), strict=True)
    }


def together(old: Said, new: Said) -> bool:
    """Return whether a statement may stand for another one."""
    alike = placed(old) == placed(new)
    one_message = old.conversation is not None and all(
        getattr(old, name) == getattr(new, name) for name in ("conversation", "age_days", "position")
    )
    return alike and not one_message and not any(said.typed or said.assistant for said in (old, new))


def lifted(seen: Sequence[tuple[int, Said]], scores: Mapping[int, float]) -> dict[int, float]:
    """Return the scores with those of statements that follow others, by the written rule."""
    said = {seq: it for seq, it in seen if it.tells and not it.typed and not it.assistant}
    words = {seq: set(analyse(it.text)) for seq, it in said.items()}

    def is_followed(older: int, newer: int) -> bool:
        before, after = said[older], said[newer]
        named = {term for word in names_and_figures(after.text) for term in analyse(word)}
        if not (after.news and named - {*before.terms} and together(before, after)):
            return False
        rare = 0
        for word in words[older] & words[newer]:
            holders = [seq for seq in said if word in words[seq] and placed(said[seq]) == placed(before)]
            rare += max(map(holders.index, (older, newer))) <= 3
        return rare >= len(analyse(before.text)) / 4

    newest = newest_of(said, is_followed)
    return {
        seq: max(scores[older] for older in scores if newest.get(older, older) == seq or older == seq) for seq in scores
    }


def newest_of(said: Mapping[int, Said], is_older: Callable[[int, int], bool]) -> dict[int, int]:
    """Return the newest statement that stands for each, or itself."""
    in_order = sorted(said, key=lambda seq: (-said[seq].age_days, seq))
    newest: dict[int, int] = {}
    for place, older in reversed(list(enumerate(in_order))):
        by = [newer for newer in in_order[place + 1 :] if is_older(older, newer)]
        newest[older] = newest[by[-1]] if by else older
    return newest


def placed(said: Said) -> tuple[str | None, ...]:
    return said.owner, said.scope, said.subject, said.speaker


def newest_first(seen: Sequence[tuple[int, Said]], scores: Mapping[int, float]) -> dict[int, float]:
    """Return the scores with those of statements that overtake others, and of these, by the written rule."""
    said = dict(seen)

    def is_overtaken(older: int, newer: int) -> bool:
        before, after = matter_of(said[older].text), matter_of(said[newer].text)
        if before is None or after is None or not together(said[older], said[newer]):
            return False
        return overtakes(after, before)

    newest = newest_of(said, is_overtaken)
    best = {seq: max(scores[older] for older in said if newest[older] == seq) for seq in newest.values()}
    return {seq: best[seq] if newest[seq] == seq else min(scores[seq], best[newest[seq]]) for seq in scores}


def mixed(similarity: float, recency: float, importance: float, weigh: RecallSettings) -> float:
    """Return the score by the composite of the settings."""
    form = weigh.composite
    if isinstance(form, Boost):
        recent = similarity + form.recency_weight * similarity * (1 - similarity) * recency
        return recent + form.importance_weight * recent * (1 - recent) * importance
    weights = (form.similarity_weight, form.recency_weight, form.importance_weight)
    return float(np.dot(weights, (similarity, recency, importance))) / sum(weights)


def key_of(match: RecallMatch) -> str:
    record = match.record
    return f"{record.details.owner} {record.scope} {record.value}"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(stores, queries, st.sampled_from([None, "alice"]), weights, st.integers(1, 30), st.booleans())
def test_the_result_is_the_true_top_of_a_naive_sort(
    store: list[Said], query: str, viewer: str | None, weigh: RecallSettings, limit: int, encoded: bool
) -> None:
    """Encoded vectors, as large blocks are from their second search on, have a larger error in the first pass."""

    async def check() -> None:
        memory = (await filled(store)).view(viewer=viewer)
        await memory.recall(query)
        matches = await memory.recall(query, limit=limit, settings=weigh)
        wanted = await naive(store, query, viewer, weigh)
        assert len(matches) == min(limit, len(wanted))
        best = sorted(wanted.values(), reverse=True)[:limit]
        assert [match.score for match in matches] == pytest.approx(best, abs=1e-5)
        for match in matches:
            assert match.score == pytest.approx(wanted[key_of(match)], abs=1e-5)

    least = 1 if encoded else vector_slots._LEAST_ROOM
    with mock.patch.multiple(vector_slots, _CODED=least, _LEAST_ROOM=least):
        anyio.run(check)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(stores, queries)
def test_a_filter_keeps_the_order_and_the_scores(store: list[Said], query: str) -> None:
    async def check() -> None:
        memory = await filled(store)
        everything = await memory.recall(query, limit=100)
        below = MemoryScope.parse("/product/a")
        kept = [match for match in everything if below.contains(match.record.scope)]
        assert await memory.recall(query, limit=100, scope="/product/a") == kept
        red = [match for match in everything if "red" in match.record.details.categories]
        assert await memory.recall(query, limit=100, categories=["red"]) == red

    anyio.run(check)
