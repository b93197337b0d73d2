"""Differences that were found once, each as its smallest conversation, with what Apache ZooKeeper said to it.

    cases/NAME.json     the servers' profile, why it is kept, and the steps, each with the reference's answer

`make compat-differential ARGS='--seed 7 --shrink'` writes a file for a difference that it has found and
shrunk. `make test` replays all files on Triokeeper, without Java; `make compat` on Apache's server too. To
make the reference answer a conversation that was changed by hand:

    PYTHONPATH=compat-tests python -m protocol.differential.corpus NAME...
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from protocol.differential.run import take_alone
from protocol.differential.scenarios import PROFILES, Profile
from protocol.differential.sides import Observation
from protocol.differential.steps import Connect, Drop, Hello, Probe, Request, Send, SendRaw, Step
from support.servers import Kind

FOLDER: Final = Path(__file__).with_name("cases")
STEPS: Final[dict[str, type[Any]]] = {each.__name__: each for each in (Connect, Send, SendRaw, Drop, Probe)}


@attrs.frozen
class Case:
    """One conversation that the two servers once answered differently."""

    name: str
    why: str
    profile: str
    steps: tuple[Step, ...]
    answers: tuple[str, ...]  # the reference's, one for each step

    @property
    def servers(self) -> Profile:
        return next(profile for profile in PROFILES if profile.name == self.profile)


def answer_text(observed: Observation) -> str:
    """What a step brought, in a form that can be kept."""
    lines = [f"slot {slot}: {seen}" for slot, seen in sorted(observed.slots.items())]
    return "\n".join([*lines, *([f"probe: {observed.probe!r}"] if observed.probe is not None else [])])


def answers_of(kind: Kind, profile: Profile, steps: Sequence[Step]) -> tuple[str, ...]:
    """What a fresh server of this kind says to the steps."""
    return tuple(map(answer_text, take_alone(kind, profile, steps)))


def as_kept(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps as they will be read: numbers that had names are plain numbers then."""
    return tuple(_from_data(_as_data(step)) for step in steps)


def cases() -> list[Case]:
    return [load(file) for file in sorted(FOLDER.glob("*.json"))]


def save(case: Case) -> Path:
    FOLDER.mkdir(exist_ok=True)
    conversation = [
        {"step": _as_data(step), "answer": answer.splitlines()}
        for step, answer in zip(case.steps, case.answers, strict=True)
    ]
    data = {"why": case.why, "profile": case.profile, "conversation": conversation}
    file = FOLDER / f"{case.name}.json"
    file.write_text(json.dumps(data, indent=1) + "\n")
    return file


def load(file: Path) -> Case:
    data = json.loads(file.read_text())
    steps = tuple(_from_data(each["step"]) for each in data["conversation"])
    answers = tuple("\n".join(each["answer"]) for each in data["conversation"])
    return Case(file.stem, data["why"], data["profile"], steps, answers)


def _as_data(value: Any) -> Any:
    """Steps as JSON has them: bytes in hexadecimal, records with their names."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, tuple):
        return [_as_data(item) for item in value]
    if attrs.has(type(value)):
        fields = {field.name: _as_data(getattr(value, field.name)) for field in attrs.fields(type(value))}
        return {"is": type(value).__name__} | fields
    return value if not isinstance(value, int) or isinstance(value, bool) else int(value)


def _from_data(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(map(_from_data, data))
    if not isinstance(data, dict):
        return data
    if "bytes" in data:
        return bytes.fromhex(data["bytes"])
    classes = {**STEPS, "Hello": Hello, "Request": Request}
    return classes[data["is"]](**{name: _from_data(value) for name, value in data.items() if name != "is"})


def record(names: Sequence[str]) -> None:
    """Have the reference answer the named cases again, and keep what it says."""
    for case in cases():
        if case.name in names:
            save(attrs.evolve(case, answers=answers_of("reference", case.servers, case.steps)))


if __name__ == "__main__":
    record(sys.argv[1:])
