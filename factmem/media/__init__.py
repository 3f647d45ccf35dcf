"""Media in messages: images, sound, video and PDF, as bytes or files of a stated type that is checked.

- `Medium`: a medium, with `MEDIA_TYPES`, `medium_type` and `fingerprint`.
- `media_in`, `media_of`: media in the content of messages as the APIs of models write it.
- `points_to_media`: words by which a user vouches for what is in a medium.
- `pdf_pages`, `reads_pdf`: text of PDF files.
"""

from factmem.media.medium import Medium

__all__ = ["Medium"]
