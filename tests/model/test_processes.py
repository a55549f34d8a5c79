"""Processes are their parent's, which alone feels Ctrl-C."""

import signal
from concurrent.futures import ThreadPoolExecutor

from cortado.model.processes import HERE, Line

AT_IMPORT = signal.getsignal(signal.SIGINT)


def tell(line: Line) -> None:
    line.send(AT_IMPORT)


def test_a_process_does_not_feel_ctrl_c_while_it_still_imports() -> None:
    process = HERE.start(tell)
    assert process.receive() == signal.SIG_IGN
    process.stop()
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_process_may_be_started_by_any_thread() -> None:
    with ThreadPoolExecutor(1) as other:
        process = other.submit(HERE.start, tell).result()
    process.receive()
    process.stop()
