"""The options of the commands that recall: the least score, and the weights behind it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import typer

from factmem.errors import InvalidDataError

if TYPE_CHECKING:
    from factmem.recall import RecallSettings

__all__ = ["CompositeName", "Scoring"]


class CompositeName(enum.StrEnum):
    """The ways to make one score of similarity, recency and importance; see `factmem.recall.Composite`."""

    BOOST = "boost"
    ADDITIVE = "additive"


def _option(name: str, help: str, **bounds: Any) -> Any:
    return typer.Option(
        f"--{name}", envvar=f"FACTMEM_{name.upper().replace('-', '_')}", help=help, rich_help_panel="Scores", **bounds
    )


_OPTION_OF: Final = {"half_life_days": "half-life"}
"""By their names in `RecallSettings`: options that have another one."""


@attrs.frozen(kw_only=True)
class Scoring:
    """The options that say how records are scored; each may be set in the environment as well.

    Attributes:
        min_score: the least score.
        composite: the way to make one score; `Boost` if None.
        similarity_weight: a weight of `Additive`.
        recency_weight: a weight of either.
        importance_weight: a weight of either.
        half_life: see `RecallSettings.half_life_days`.
        lexical_weight: see `RecallSettings`.
        diversity: see `RecallSettings`.
    """

    min_score: Annotated[float, _option("min-score", "Leave out what scores less.", min=0, max=1)] = 0.0
    composite: Annotated[
        CompositeName | None,
        _option("composite", "boost (the default): recency and importance order what answers; additive: a sum."),
    ] = None
    similarity_weight: Annotated[float | None, _option("similarity-weight", "Of additive.", min=0)] = None
    recency_weight: Annotated[float | None, _option("recency-weight", "Of boost, up to 1, or additive.", min=0)] = None
    importance_weight: Annotated[
        float | None, _option("importance-weight", "Of boost, up to 1, or additive.", min=0)
    ] = None
    half_life: Annotated[float | None, _option("half-life", "The age at which recency has halved, in days.")] = None
    lexical_weight: Annotated[
        float | None, _option("lexical-weight", "From 0 (meaning alone) to 1 (words alone).", min=0, max=1)
    ] = None
    diversity: Annotated[
        float | None, _option("diversity", "What it costs a result to repeat one before it.", min=0, max=1)
    ] = None

    def settings(self) -> RecallSettings | None:
        """Return the weights; None if no option names one.

        Raises:
            typer.BadParameter: a weight is none of the composite's, or out of range.
        """
        from factmem.recall import RecallSettings

        others = {
            "half_life_days": self.half_life,
            "lexical_weight": self.lexical_weight,
            "diversity": self.diversity,
        }
        said: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
        weights = {
            "similarity_weight": self.similarity_weight,
            "recency_weight": self.recency_weight,
            "importance_weight": self.importance_weight,
        }
        given = {name: value for name, value in weights.items() if value is not None}
        if self.composite is None and not given and not said:
            return None
        try:
            return RecallSettings(composite=self._composite(given), **said)
        except InvalidDataError as error:
            raise typer.BadParameter(_in_options(error)) from None

    def _composite(self, weights: dict[str, float]) -> Any:
        from factmem.recall import Additive, Boost

        if self.composite is CompositeName.ADDITIVE:
            return Additive(**weights)
        if "similarity_weight" in weights:
            raise typer.BadParameter(
                "--similarity-weight is a weight of --composite additive: name that, or leave the weight out"
            )
        return Boost(**weights)


def _in_options(error: InvalidDataError) -> str:
    """Return what an error says of a setting, in the names of the options."""
    name = (error.path or "").removeprefix("$.")
    text = str(error).replace(f" (at {error.path})", "")
    return text.replace(name, f"--{_OPTION_OF.get(name, name.replace('_', '-'))}") if name else text
