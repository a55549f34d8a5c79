"""A Ray cluster for the commands that work in one."""

import socket

ANSWER_SECONDS = 10.0  # in which a cluster's head takes a connection


def join(address: str | None) -> None:
    """Connect this process to a cluster; without an address, to one of this machine.

    Raises: ValueError if there is none at the address, or it cannot be joined.
    """
    import ray

    try:
        host, separator, port = (address or "").rpartition(":")
        if separator and port.isdigit():  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
        ray.init(address, configure_logging=False, log_to_driver=False)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        where = "on this machine" if address is None else f"at HOST:PORT, got {address}"
        reason = " ".join(str(error).split())
        raise ValueError(f"expected a Ray cluster {where}: {reason}") from error
