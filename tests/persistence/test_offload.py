"""Blocking work in its own thread: results, errors, order, and cancellation that waits."""

import threading

import pytest
import trio
import trio.testing

from persistence.offload import Begun, WorkerThread


async def test_results_and_errors_come_back() -> None:
    async with WorkerThread("test") as offload:
        assert await offload(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await offload(divmod, 7, 0)
        assert await offload(divmod, 9, 2) == (4, 1)


async def test_the_work_is_done_in_one_other_thread() -> None:
    async with WorkerThread("test") as offload:
        threads = {await offload(threading.get_ident) for _ in range(3)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_the_event_loop_goes_on_meanwhile() -> None:
    may_end = threading.Event()
    async with WorkerThread("test") as offload, trio.open_nursery() as nursery:
        nursery.start_soon(offload, may_end.wait, 60.0)
        await trio.testing.wait_all_tasks_blocked()
        may_end.set()


async def test_calls_made_together_run_in_the_order_they_were_made() -> None:
    may_begin = threading.Event()
    done: list[int] = []
    async with WorkerThread("test") as offload, trio.open_nursery() as nursery:
        nursery.start_soon(offload, may_begin.wait, 60.0)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(5):
            nursery.start_soon(offload, done.append, number)
            await trio.testing.wait_all_tasks_blocked()
        may_begin.set()
    assert done == [0, 1, 2, 3, 4]


async def test_a_call_that_has_begun_is_waited_for_when_cancelled() -> None:
    """Whoever wrote something must learn whether it was written."""
    may_end = threading.Event()
    results: list[bool] = []

    async def call() -> None:
        results.append(await offload(may_end.wait, 60.0))
        await trio.lowlevel.checkpoint()
        results.append(False)

    async with WorkerThread("test") as offload, trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        may_end.set()
    assert results == [True]


async def test_a_call_that_has_not_begun_is_dropped_when_cancelled() -> None:
    may_end = threading.Event()
    done: list[int] = []
    async with WorkerThread("test") as offload, trio.open_nursery() as nursery:
        nursery.start_soon(offload, may_end.wait, 60.0)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0):
            await offload(done.append, 1)
        may_end.set()
    assert done == []


async def test_work_that_takes_a_moment_is_waited_for() -> None:
    done: list[int] = []
    async with WorkerThread("test") as thread:
        begun = thread.begin(60.0, lambda: done.append(threading.get_ident()))
        assert begun.is_done
        assert done != [threading.get_ident()]
        begun.check()
        await begun.finished()
        assert await thread(divmod, 7, 2) == (3, 1)


async def test_what_the_work_raises_is_told() -> None:
    def fail() -> None:
        raise OSError("injected")

    async with WorkerThread("test") as thread:
        with pytest.raises(OSError, match="injected"):
            thread.begin(60.0, fail).check()


async def test_the_event_loop_goes_on_after_a_moment() -> None:
    """And is told when the work is done; also when it is cancelled it learns of it."""
    may_end = threading.Event()
    ends: list[str] = []

    async def wait_for(begun: Begun) -> None:
        await begun.finished()
        ends.append("told")

    async with WorkerThread("test") as thread:
        begun = thread.begin(0.001, lambda: ends.append(f"done: {may_end.wait(60.0)}"))
        assert not begun.is_done
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for, begun)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            may_end.set()
        assert ends == ["done: True", "told"]
        begun.check()
        assert await thread(divmod, 7, 2) == (3, 1)


async def test_work_that_ends_just_when_nobody_waits_any_longer_is_told_once() -> None:
    """Whoever comes first, the end of the work or the end of patience."""
    async with WorkerThread("test") as thread:
        for number in range(300):
            begun = thread.begin(number % 3 * 1e-5, lambda: None)
            await begun.finished()
            begun.check()
        with trio.move_on_after(0) as nothing_more:
            await trio.lowlevel.wait_readable(thread._done)
        assert nothing_more.cancelled_caught
