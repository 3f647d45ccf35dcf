"""Media in messages: images, sound, video and PDF, as bytes or files of a stated type that is checked.

- `Medium`: a medium, with `MEDIA_TYPES`, `medium_type` and `fingerprint`.
- `media_in`, `media_of`: media in the content of messages as the APIs of models write it.
- `points_to_media`: words by which a user vouches for what is in a medium.
- `pdf_pages`, `reads_pdf`: text of PDF files.
"""

from factmem.media.medium import MEDIA_TYPES, Medium, fingerprint, medium_type
from factmem.media.parts import MediaParts, media_in, media_of
from factmem.media.pdf_text import PdfError, pdf_pages, reads_pdf
from factmem.media.pointing import points_to_media

__all__ = [
    "MEDIA_TYPES",
    "MediaParts",
    "Medium",
    "PdfError",
    "fingerprint",
    "media_in",
    "media_of",
    "medium_type",
    "pdf_pages",
    "points_to_media",
    "reads_pdf",
]
