"""The verifier that asks a language model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import attrs
from anyio import to_thread

from factmem.abc.model import LanguageModel
from factmem.abc.verifier import Claim, Confirmation
from factmem.detection.model_questions import inquire
from factmem.detection.redaction import redact
from factmem.llm.messages import document, element, section


@attrs.frozen(kw_only=True)
class ModelVerifier:
    """A `Verifier` that asks a language model about all claims: in one question, or in several if they do not fit.

    The claims stand in an order that does not depend on that of the findings. A claim that is too long for a question
    is unclear, as is one without an answer or with two. Secrets are redacted before the model sees anything.

    Attributes:
        model: the language model.
    """

    model: LanguageModel = attrs.field(kw_only=False)

    async def verify(self, claims: Sequence[Claim]) -> Sequence[Confirmation]:
        """See `factmem.abc.Verifier.verify`."""
        questions = await to_thread.run_sync(list, self._questions(claims))
        answers = [Confirmation.UNCLEAR] * len(claims)
        found = await inquire(self.model, "verify", *(content for _, content in questions))
        for (shown, _), answer in zip(questions, found, strict=True):
            said: dict[int, set[Confirmation]] = {}
            for item in answer["claims"]:
                said.setdefault(item["number"], set()).add(Confirmation(item["answer"]))
            for number, given in said.items():
                if 0 < number <= len(shown) and len(given) == 1:
                    answers[shown[number - 1]] = given.pop()
        return answers

    def _questions(self, claims: Sequence[Claim]) -> Iterator[tuple[list[int], str]]:
        """Yield questions: the places of the claims of each, in the order shown, and the document."""
        room, shown, passages = self.model.max_chars, list[int](), dict[str, list[str]]()
        for place in sorted(range(len(claims)), key=lambda place: digest_of(claims[place])):
            words, claim = _words(claims[place]), _claim(len(shown) + 1, claims[place])
            length = len(claim) + (0 if words in passages else len(section("passage", [words])))
            if length > room and shown:
                yield shown, _document(passages)
                room, shown, passages = self.model.max_chars, [], {}
                claim = _claim(1, claims[place])
                length = len(claim) + len(section("passage", [words]))
            if length <= room:
                room -= length
                passages.setdefault(words, []).append(claim)
                shown.append(place)
        if shown:
            yield shown, _document(passages)


def _document(passages: Mapping[str, Sequence[str]]) -> str:
    return document(*(section("passage", [words, *lines]) for words, lines in passages.items()))


def _words(claim: Claim) -> str:
    answered = f"{element('answers', redact(claim.answered).text)}\n" if claim.answered else ""
    said = f"{claim.said_at:%Y-%m-%d %H:%M}"
    return answered + element("words", redact(claim.passage).text, speaker=claim.speaker, said=said)


def _claim(number: int, claim: Claim) -> str:
    return element(
        "claim",
        redact(claim.value).text,
        number=str(number),
        about=claim.about or None,
        what=claim.concept or None,
        request="to forget" if claim.removal else None,
        state="no longer so" if claim.ended else None,
    )


def digest_of(claim: Claim) -> bytes:
    """Return a digest of all that a claim says: the same for equal claims."""
    return hashlib.sha256(repr(attrs.astuple(claim)).encode(errors="surrogatepass")).digest()
