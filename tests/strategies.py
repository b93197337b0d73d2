"""Hypothesis strategies for what the wire can carry; of a record, derived from its annotations."""

from typing import Annotated, Any, TypeVar, get_args, get_origin

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from jute.primitives import BUFFER, USTRING, VECTOR

_T = TypeVar("_T")


def signed(bits: int) -> SearchStrategy[int]:
    """Integers that fit in so many bits, two's complement."""
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def bmp_text(min_size: int = 0) -> SearchStrategy[str]:
    """Text that the wire gives back unchanged: characters above U+FFFF do not survive Java's encoding."""
    return st.text(
        st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=min_size, max_size=8
    )


_OF_WIRE: dict[str, SearchStrategy[Any]] = {
    "b": signed(8),
    "?": st.booleans(),
    "i": signed(32),
    "q": signed(64),
    USTRING: st.none() | bmp_text(),
    BUFFER: st.none() | st.binary(max_size=16),
}


def records(cls: type[_T]) -> SearchStrategy[_T]:
    """Any instance of a record that survives the wire, nulls included."""
    return st.builds(cls, *(_values(field.type) for field in attrs.fields(cls)))  # type: ignore[arg-type]


def _values(annotation: Any) -> SearchStrategy[Any]:
    if get_origin(annotation) is not Annotated:
        return records(annotation)
    annotated, wire = get_args(annotation)
    if wire != VECTOR:
        return _OF_WIRE[wire]
    element = get_args(get_args(annotated)[0])[0]
    return st.none() | st.lists(_values(element), max_size=3).map(tuple)
