"""Does something as another user of this machine, which only root can."""

from __future__ import annotations

import os
import pickle
import pwd
import traceback
from collections.abc import Callable
from typing import TypeVar

import pytest

Answer = TypeVar("Answer")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_user(name: str, act: Callable[[], Answer]) -> Answer:
    """What `act` returns where this user does it, with the user's own group alone.

    In a fork: the user need not be allowed to read this environment's files. What `act` raises fails the test.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            user = pwd.getpwnam(name)
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            os.environ["HOME"] = "/nonexistent"
            with open(writing, "wb") as answer:
                pickle.dump(act(), answer)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as answer:
        told = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"{name} failed, see stderr"
    return pickle.loads(told)
