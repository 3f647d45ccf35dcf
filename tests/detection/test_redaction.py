"""Redaction of a labelled corpus of generated secrets and of text that must stay.

The corpus holds recipes (``ghp_<an36>``), not secrets, so that no scanner of this repository reports them.
"""

from __future__ import annotations

import json
import random
import re
import string
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from factmem.abc.detector import Conversation, Message
from factmem.detection.redaction import Redacted, RedactedSecret, redact, redact_conversation
from tests.growth import cpu_seconds, grows_faster
from tests.tables import each_case

pytestmark = pytest.mark.slow

CORPUS: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("secrets.json").read_text("utf-8"))
ALPHABETS: Final = {
    "an": string.ascii_letters + string.digits,
    "AN": string.ascii_uppercase + string.digits,
    "hex": "0123456789abcdef",
    "b64 ": string.ascii_letters + string.digits + "+/",
    "tok": string.ascii_letters + string.digits + "_-",
    "d": "123456789",
}


@attrs.frozen
class Sample:
    kind: str
    secret: str
    text: str


def _samples() -> list[Sample]:
    chance = random.Random(20240508)

    def made_up(match: re.Match[str]) -> str:
        # Every real token of that length contains a digit and a letter.
        body = "".join(chance.choices(ALPHABETS[match[1]], k=int(match[2])))
        return body if int(match[2]) < 10 else body[:-2] + ("7f" if match[1] in ("hex", "an", "tok", "b64 ") else "77")

    samples = []
    for row in CORPUS["secrets"]:
        secret = re.sub(r"<(an|AN|hex|b64 |tok|d)(\d+)>", made_up, row["secret"])
        samples.append(Sample(row["kind"], secret, row["text"].format(secret)))
    return samples


SAMPLES: Final = _samples()


def _leaks(sample: Sample, redacted: Redacted) -> bool:
    """Return whether eight consecutive characters of the secret (all, of a shorter one) remain in the text."""
    size = min(8, len(sample.secret))
    outside = sample.text.replace(sample.secret, "\0")
    pieces = {sample.secret[at : at + size] for at in range(len(sample.secret) - size + 1)}
    return any(piece in redacted.text and piece not in outside for piece in pieces)


def test_every_kind_of_secret_is_found_and_nothing_of_it_is_left() -> None:
    found, wanted, right, said = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    missed = []
    for sample in SAMPLES:
        redacted = redact(sample.text)
        kinds = {finding.kind for finding in redacted.findings}
        wanted[sample.kind] += 1
        said.update(kinds)
        if sample.kind in kinds and not _leaks(sample, redacted):
            found[sample.kind] += 1
            right[sample.kind] += 1
        else:
            missed.append((sample.kind, sample.text[:40]))
    for text in CORPUS["ordinary"]:
        said.update(finding.kind for finding in redact(text).findings)
    for kind in sorted(wanted):
        print(f"{kind:18} recall {found[kind]}/{wanted[kind]}  precision {right[kind]}/{said[kind]}")
    assert len(wanted) >= 12
    assert missed == []
    assert said == right


@pytest.mark.parametrize("text", CORPUS["ordinary"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == Redacted(text)


@each_case("said", "kept")
def test_a_password_is_found_right_behind_the_word_for_it(said: str, kept: str) -> None:
    assert redact(said).text == kept.format("[redacted: password]")


@each_case("text")
def test_words_beside_password_stay(text: str) -> None:
    assert redact(text) == Redacted(text)


def test_what_surrounds_a_secret_stays() -> None:
    redacted = redact("my password is hunter2, my cat is Tom; the url is ftp://ann:pw99@host/x")
    assert redacted.text == (
        "my password is [redacted: password], my cat is Tom; the url is ftp://ann:[redacted: url password]@host/x"
    )


def test_findings_have_the_positions_of_the_placeholders() -> None:
    redacted = redact("PIN: 4821 and password: Tr0ub4dor&3")
    assert [(finding.kind, redacted.text[finding.start : finding.end]) for finding in redacted.findings] == [
        ("pin", "[redacted: pin]"),
        ("password", "[redacted: password]"),
    ]


def test_overlapping_findings_are_one_and_take_the_more_specific_kind() -> None:
    secret = next(sample.secret for sample in SAMPLES if sample.kind == "github token")
    assert redact(f"api_key = {secret}").findings == (RedactedSecret(kind="github token", start=10, end=34),)


def test_a_redacted_text_shows_nothing_in_its_repr() -> None:
    assert "Tom" not in repr(redact("my cat is called Tom"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.kind)
def test_redacting_twice_changes_nothing_more(sample: Sample) -> None:
    once = redact(sample.text)
    assert redact(once.text) == Redacted(once.text)


@given(st.text())
@example("password: [redacted: password]")
def test_any_text_can_be_redacted_and_only_findings_change_it(text: str) -> None:
    redacted = redact(text)
    assert bool(redacted.findings) == (redacted.text != text)


@given(before=st.text(alphabet="ab \n.", max_size=20), after=st.text(alphabet="ab \n.", max_size=20))
def test_a_secret_is_found_wherever_it_stands(before: str, after: str) -> None:
    secret = next(sample.secret for sample in SAMPLES if sample.kind == "aws key")
    assert secret not in redact(f"{before} {secret} {after}").text


ATOMS: Final = (
    *("sk-", "eyJaaaaaaaaa.", "xoxb-1-", "aa://b:", "+.-", "SG.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.", "4111 1111 ", "GB29 "),
    *("password for a b c d ", "my pin for ", "secret_", "x is my password", 'password"', "password: a1b2c3d4 "),
    *("-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAA\n"),
)


@pytest.mark.parametrize("atom", ATOMS)
def test_a_long_text_of_near_misses_takes_linear_time(atom: str, big: bool) -> None:
    """A quadratic pattern would take hours for a megabyte."""

    def cost(length: int) -> float:
        return cpu_seconds(lambda: redact("password token bearer pin: sk- :// AKIA " + atom * (length // len(atom))))

    assert not grows_faster(cost, 10_000, 1_000_000 if big else 80_000, times=200 if big else 16, least=0.02)


def test_threads_may_redact_at_once() -> None:
    texts = [sample.text for sample in SAMPLES]
    alone = [redact(text) for text in texts]
    results: list[list[Redacted]] = []
    threads = [threading.Thread(target=lambda: results.append([redact(text) for text in texts])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [alone] * 4


def test_a_conversation_without_secrets_is_returned_as_it_is() -> None:
    conversation = Conversation(messages=(Message(content="my cat is called Tom"),))
    assert redact_conversation(conversation) is conversation


def test_only_the_messages_with_secrets_of_a_conversation_change() -> None:
    first, second = Message(content="my cat is called Tom", id="1"), Message(content="PIN: 4821", id="2")
    clean = redact_conversation(Conversation(messages=(first, second), id="c"))
    assert clean.messages[0] is first
    assert clean.messages[1] == attrs.evolve(second, content="PIN: [redacted: pin]")
    assert clean.id == "c"


def test_a_secret_goes_wherever_it_is_repeated() -> None:
    redacted = redact("my password is blue77cat, yes, blue77cat; and sunshine is my password? no, sunshine is nice")
    assert "blue77cat" not in redacted.text
    assert redacted.text.count("sunshine") == 2


def test_a_secret_that_one_message_announces_goes_from_the_others() -> None:
    said = Conversation(
        messages=(Message(content="my password is blue77cat"), Message(content="Noted: blue77cat.", role="assistant"))
    )
    assert [message.content for message in redact_conversation(said).messages] == [
        "my password is [redacted: password]",
        "Noted: [redacted: password].",
    ]
