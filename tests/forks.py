"""Actions in a forked process."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final

SECONDS: Final = 60


def in_a_fork(action: Callable[[], object], seconds: int = SECONDS) -> int:
    """Return the exit code of a child that does something: 1 after an error, which is printed to stderr.

    One that takes longer is killed by an alarm.
    """
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            action()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
