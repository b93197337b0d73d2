"""Blocking work in its own thread: results, errors, order, and cancellation that waits."""

import threading

import pytest
import trio
import trio.testing

from persistence.offload import WorkerThread


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
