"""A medium: its bytes, of a stated type that is checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError, MediumError
from factmem.validators import instance_of

_Check: TypeAlias = "Callable[[bytes], bool]"
_HEAD: Final = 1024
"""Number of leading bytes by which a type is recognized; a PDF may begin that late."""


def _starts(*signatures: bytes) -> _Check:
    return lambda head: head.startswith(signatures)


def _riff(kind: bytes) -> _Check:
    return lambda head: head[:4] == b"RIFF" and head[8:12] == kind


def _box(*brands: bytes) -> _Check:
    """Return the check of files of ISO's base media format, by their brand; any brand without one."""
    return lambda head: head[4:8] == b"ftyp" and (not brands or head[8:12] in brands)


def _mpeg(head: bytes) -> bool:
    return head.startswith(b"ID3") or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 in (0xE2, 0xE4, 0xE6))


MEDIA_TYPES: Final[Mapping[str, _Check]] = {
    "image/png": _starts(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": _starts(b"\xff\xd8\xff"),
    "image/gif": _starts(b"GIF87a", b"GIF89a"),
    "image/webp": _riff(b"WEBP"),
    "audio/wav": _riff(b"WAVE"),
    "audio/mpeg": _mpeg,
    "audio/ogg": _starts(b"OggS"),
    "audio/flac": _starts(b"fLaC"),
    "audio/mp4": _box(),
    "audio/webm": _starts(b"\x1a\x45\xdf\xa3"),
    "video/mp4": _box(),
    "video/quicktime": _box(b"qt  "),
    "video/webm": _starts(b"\x1a\x45\xdf\xa3"),
    "application/pdf": lambda head: b"%PDF-" in head,
}
"""The types that a medium may have, each with the check of its first bytes."""

_SPELLINGS: Final = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/aac": "audio/mp4",
    "audio/opus": "audio/ogg",
    "application/x-pdf": "application/pdf",
}


def medium_type(mime: object) -> str:
    """Return a MIME type in its usual spelling, without parameters.

    Raises:
        MediumError: No medium may have it.
    """
    if not isinstance(mime, str):
        raise MediumError(f"a medium's type is a text such as image/png, not {kind_of(mime)}")
    plain = mime.partition(";")[0].strip().lower()
    plain = _SPELLINGS.get(plain, plain)
    if plain not in MEDIA_TYPES:
        raise MediumError(f"this type of media is not supported: give one of {', '.join(MEDIA_TYPES)}")
    return plain


def _content(content: object) -> bytes | Path:
    match content:
        case bytes():
            return content
        case bytearray() | memoryview():
            return bytes(content)
        case Path():
            return content
        case _:
            raise InvalidDataError(
                f"a medium is given as bytes or a Path, not as {kind_of(content)}: none is fetched or guessed"
            )


def _check(data: bytes, mime: str) -> None:
    if not data:
        raise MediumError("the medium is empty: there is nothing to read")
    if not MEDIA_TYPES[mime](data[:_HEAD]):
        raise MediumError(f"the medium's first bytes are not those of {mime}: give its real type")


@attrs.frozen
class Medium:
    """A part of a message without text: an image, sound, a video or a PDF.

    Attributes:
        content: The bytes, or the path of a file, which is read when the message is taken in. Text is refused: a URL
            is never fetched, and base64 never guessed.
        mime: MIME type, one of `MEDIA_TYPES`; the first bytes must be of it.
        caption: What is known to be in it, if anything; text that needs no model.
        vouched: Whether the user points to what is in it, so that facts found there count. Otherwise that follows from
            the user's words in the same message. See `factmem.media.references.points_to_media`.

    Raises:
        MediumError: There are no bytes, or they are of another type.
        InvalidDataError: The content is neither bytes nor a path.

    Example:
        >>> Medium(Path("ticket.png"), "image/png", caption="my train ticket")  # doctest: +SKIP
    """

    content: bytes | Path = attrs.field(converter=_content, repr=False)
    mime: str = attrs.field(converter=medium_type)
    caption: str = attrs.field(default="", validator=instance_of(str), repr=False, kw_only=True)
    vouched: bool = attrs.field(default=False, validator=instance_of(bool), kw_only=True)

    def __attrs_post_init__(self) -> None:
        if isinstance(self.content, bytes):
            _check(self.content, self.mime)

    @property
    def kind(self) -> str:
        """First half of the type: ``image``, ``audio``, ``video`` or ``application``."""
        return self.mime.partition("/")[0]

    def loaded(self, most: int) -> bytes:
        """Return the bytes. This blocks: it may read a file.

        Args:
            most: Maximum number of bytes.

        Raises:
            MediumError: There are more, or none, they are of another type, or the file cannot be read.
        """
        data = self.content if isinstance(self.content, bytes) else _read(self.content, most)
        if len(data) > most:
            raise MediumError(
                f"the medium has more than {most} bytes: make it smaller, or raise MediaSettings.max_bytes"
            )
        _check(data, self.mime)
        return data


def _read(path: Path, most: int) -> bytes:
    try:
        if not path.is_file():  # a pipe or a device might never end
            raise MediumError("the medium's path is not that of a file")
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise MediumError(f"the medium's file cannot be read: {type(error).__name__}") from None


def fingerprint(data: bytes) -> str:
    """Return the SHA-256 of a medium, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
