"""Small media: enough of each to be of its type, and PDF files with a text layer."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

PNG: Final = b"\x89PNG\r\n\x1a\n" + b"picture"
JPEG: Final = b"\xff\xd8\xff\xe0" + b"photo"
WAV: Final = b"RIFF\x10\x00\x00\x00WAVEfmt " + b"sound"
MP3: Final = b"ID3\x04\x00" + b"sound"
MP4: Final = b"\x00\x00\x00\x18ftypisom" + b"video"

SAMPLES: Final = {
    "image/png": PNG,
    "image/jpeg": JPEG,
    "image/gif": b"GIF89a" + b"picture",
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
    "audio/wav": WAV,
    "audio/mpeg": MP3,
    "audio/ogg": b"OggS\x00" + b"sound",
    "audio/flac": b"fLaC\x00" + b"sound",
    "audio/mp4": b"\x00\x00\x00\x18ftypM4A " + b"sound",
    "audio/webm": b"\x1a\x45\xdf\xa3" + b"sound",
    "video/mp4": MP4,
    "video/quicktime": b"\x00\x00\x00\x14ftypqt  " + b"video",
    "video/webm": b"\x1a\x45\xdf\xa3" + b"video",
    "application/pdf": b"%PDF-1.7\n",
}
"""The first bytes of a medium of each type."""


def pdf(pages: Sequence[str]) -> bytes:
    """Return a PDF with a text layer, one line a page."""
    return pdf_of([f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET".encode() for page in pages])


def pdf_of(contents: Sequence[bytes], *, packed: bool = False) -> bytes:
    """Return a PDF whose pages have these content streams."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        data = zlib.compress(content) if packed else content
        flate = " /Filter /FlateDecode" if packed else ""
        objects.append(f"<< /Length {len(data)}{flate} >>\nstream\n".encode() + data + b"\nendstream")
    written, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, item in enumerate(objects, start=1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n".encode() + item + b"\nendobj\n"
    start = len(written)
    written += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    for offset in offsets:
        written += f"{offset:010} 00000 n \n".encode()
    written += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(written)


def bomb(size: int) -> bytes:
    """Return a PDF of a few kilobytes whose only page unpacks to so many bytes of text."""
    line = b"BT /F1 12 Tf (" + b"A" * 1000 + b") Tj ET\n"
    return pdf_of([line * (size // len(line))], packed=True)
