"""What every task and every thread of this process is doing at the moment, for people to read."""

import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from types import FrameType

import trio


def stacks() -> Iterator[str]:
    """A line for each task of Trio's and for each thread, outermost call first. From a task only."""
    root = trio.lowlevel.current_root_task()
    if root is not None:
        yield from _of_tasks(root)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"thread {names.get(ident, ident)}: {_shown(traceback.walk_stack(frame), is_inner_first=True)}"


def _of_tasks(task: trio.lowlevel.Task) -> Iterator[str]:
    yield f"task {task.name}: {_shown(task.iter_await_frames(), is_inner_first=False)}"
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _of_tasks(child)


def _shown(frames: Iterable[tuple[FrameType, int]], *, is_inner_first: bool) -> str:
    calls = []
    for frame, line in frames:
        file = PurePath(frame.f_code.co_filename)
        calls.append(f"{file.parent.name}/{file.name}:{line} {frame.f_code.co_name}")
    return " > ".join(reversed(calls) if is_inner_first else calls)
