"""Subjects: the entities that facts are about."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from factmem.errors import InvalidDataError
from factmem.validators import named, text, whole

_WEAKEST: Final = 2**31 - 1


@attrs.frozen
class MemorySubject:
    """The entity that facts are about.

    A subject can be narrowed to one individual, which is a place of its own: reading ``USER`` never reads
    ``USER.individual("alice")``.

    Attributes:
        name: the subject's unique name.
        prompt_description: what the subject stands for, shown to people and to models.
        priority_level: from 0 to 2**31 - 1; lower is stronger. If several subjects have a fact of one concept, the
            strongest is chosen. The user whom a view is for comes before all of them. Of several priorities that a
            subject was written with, the strongest counts.
        individual_name: the individual this is narrowed to, if any.

    Raises:
        InvalidDataError: a name is not legal or the priority is out of range.

    Example:
        >>> USER = MemorySubject("user", "the person who talks with the agent", priority_level=1)
        >>> str(USER.individual("alice"))
        'user:alice'
    """

    EVERYTHING: ClassVar[MemorySubject]
    """The weakest subject, for all facts without a subject of their own."""

    name: str = attrs.field(validator=named("a subject's name"))
    prompt_description: str = attrs.field(default="", validator=text)
    priority_level: int = attrs.field(default=_WEAKEST - 1, kw_only=True, validator=whole(0, _WEAKEST))
    individual_name: str | None = attrs.field(
        default=None, kw_only=True, validator=named("a subject's individual_name")
    )

    def __init_subclass__(cls) -> None:
        if given := {"name", "prompt_description", "priority_level", "individual_name"} & vars(cls).keys():
            raise InvalidDataError(
                f"a subject is an instance, not a class with {', '.join(sorted(given))}: "
                f'write {cls.__name__.upper()} = MemorySubject("{cls.__name__.lower()}", "…", priority_level=1)'
            )

    @classmethod
    def parse(cls, text: str) -> MemorySubject:
        """Return the subject of a text such as ``user`` or ``user:alice``, without what is declared of it.

        Raises:
            InvalidNameError: a name is not legal.
        """
        name, colon, individual = text.partition(":")
        subject = MemorySubject(name)
        return subject.individual(individual) if colon else subject

    def individual(self, name: str) -> MemorySubject:
        """Narrow this subject to one individual.

        Raises:
            InvalidNameError: the name is not legal.
        """
        return attrs.evolve(self, individual_name=name)

    @property
    def key(self) -> tuple[str, str | None]:
        """The identity of the subject: its name and its individual."""
        return (self.name, self.individual_name)

    def __str__(self) -> str:
        return self.name if self.individual_name is None else f"{self.name}:{self.individual_name}"


MemorySubject.EVERYTHING = MemorySubject(
    "everything", "All important information and meaningful facts", priority_level=_WEAKEST
)
