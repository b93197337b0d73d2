"""Differences that were found once do not come back; corpus.py says what is kept."""

from pathlib import Path

import pytest

from protocol.differential import corpus
from protocol.differential.corpus import Case, answers_of, cases
from protocol.differential.run import smallest
from protocol.differential.steps import Connect, Drop, Hello, Probe, Request, Send, SendRaw, Step
from support.servers import Kind

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kept_conversation_is_answered_as_apaches_server_did(case: Case, kind: Kind) -> None:
    assert answers_of(kind, case.servers, case.steps) == case.answers


@pytest.mark.self_check
def test_a_case_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    steps: tuple[Step, ...] = (
        Connect(0, Hello(session=1, password="wrong"), (Request(1, 4, b"\x00\xff", "getData", b"/a"),)),
        Send(0, (Request(2, 1, b"", "create"),), cut_at=3),
        SendRaw(1, b"\x80"),
        Drop(0),
        Probe(b"ruok"),
    )
    case = Case("name", "why", "plain", steps, ("a\nb", "", "c", "d", "e"))
    assert corpus.load(corpus.save(case)) == case


@pytest.mark.self_check
def test_shrinking_leaves_what_matters() -> None:
    """Of ten steps the third and the last make the difference: these two are left."""

    def differs(steps: list[str]) -> int | None:
        return len(steps) - 1 if "third" in steps and steps[-1] == "last" else None

    steps = ["a", "b", "third", "d", "e", "f", "g", "h", "i", "last"]
    assert smallest(differs, steps) == ["third", "last"]
