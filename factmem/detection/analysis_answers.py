"""The pydantic models of an analyst's answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, Field, JsonValue, create_model

from factmem.abc import Analysis, AnalysisRequest
from factmem.detection.candidates import says_nothing
from factmem.detection.value_models import AnswerPart
from factmem.errors import InvalidNameError
from factmem.llm.answering import ModelAnswer, each
from factmem.names import checked_name

__all__ = ["Statements", "analysis_from", "analysis_model", "statements_model"]

# What is made here at run time, no type checker can know.
_Dynamic: TypeAlias = Any


if TYPE_CHECKING:
    _Labels: TypeAlias = list[str]
else:
    _Labels = each(str)


class Statements(AnswerPart, ModelAnswer):
    """The statements of a text."""

    statements: _Labels = Field(description="the atomic statements of the text, in order")


def statements_model(most: int) -> type[Statements]:
    """Build the model of the statements of a text, whose schema says how many there are to be at most."""
    told: dict[str, JsonValue] = {"maxItems": most}
    described = Field(description="the atomic statements of the text, in order", json_schema_extra=told)
    return create_model("Statements", __base__=Statements, statements=(_Labels, described))


class _Analysis(AnswerPart, ModelAnswer):
    entities: _Labels = Field(default_factory=list, description="people, places, organisations and things it names")
    dates: _Labels = Field(default_factory=list, description="dates and times it names, as they stand there")
    topics: _Labels = Field(default_factory=list, description="what it touches, a few words each")


def analysis_model(request: AnalysisRequest) -> type[BaseModel]:
    """Build the model of an analysis, with the fields that are asked for."""
    fields: dict[str, _Dynamic] = {}
    if request.scope:
        fields["scope"] = (str | None, Field(default=None, description="the path of the scope it belongs to"))
    if request.categories:
        fields["categories"] = (_Labels, Field(default_factory=list, description="one to three short labels"))
    if request.importance:
        fields["importance"] = (float, Field(ge=0, le=1, description="how much it matters, from 0 to 1"))
    return create_model("Analysis", __base__=_Analysis, **fields)


def analysis_from(answer: BaseModel) -> Analysis:
    """Read an analysis. Labels that no store can carry, and what models say instead of nothing, are left out."""
    said: _Dynamic = answer
    return Analysis(
        scope=_path(getattr(said, "scope", None)),
        categories=_names(getattr(said, "categories", ())),
        importance=getattr(said, "importance", None),
        entities=_names(said.entities),
        dates=_names(said.dates),
        topics=_names(said.topics),
    )


def _path(text: str | None) -> str | None:
    if text is None or says_nothing(text):
        return None
    return f"/{text.strip().strip('/')}"


def _names(labels: Iterable[str]) -> tuple[str, ...]:
    spelled = (" ".join(label.split()) for label in labels if not says_nothing(label))
    return tuple(dict.fromkeys(label for label in spelled if _is_legal(label)))


def _is_legal(label: str) -> bool:
    try:
        checked_name(label, what="a label")
    except InvalidNameError:
        return False
    return True
