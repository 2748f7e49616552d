"""tools/check-launchers ended by a signal leaves no process and no file behind."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
PATIENCE = 60.0
# A process shows no environment for a moment while it starts a program: one look may miss it.
LOOKS = 10
BETWEEN_LOOKS = 0.05


def started_below(directory):
    """Processes whose HOME is there, as that of all on the hosts."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HOME={directory}".encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def still_there(directory):
    """Those found last, when many looks in a row have found none or patience ends."""
    end = time.monotonic() + PATIENCE
    none_in_a_row = 0
    while none_in_a_row < LOOKS:
        found = started_below(directory)
        if found and time.monotonic() >= end:
            return found
        none_in_a_row = 0 if found else none_in_a_row + 1
        time.sleep(BETWEEN_LOOKS)
    return []


class EndTest(unittest.TestCase):
    build = None

    def end_by(self, number):
        """The status of a check ended while it trains, and what it left in its directory."""
        with tempfile.TemporaryDirectory() as directory:
            check = subprocess.Popen(
                [sys.executable, "-B", FOLDER / "check_launchers.py", self.build, "--launcher",
                 "tcp"], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": directory})
            with check:
                line = check.stdout.readline()
                if "skipped" in line:
                    self.skipTest(line)
                self.assertNotEqual(started_below(directory), [])
                check.send_signal(number)
                status = check.wait(PATIENCE)
            self.assertEqual(still_there(directory), [])
            return status, os.listdir(directory)

    def test_of_a_signal_that_it_hears(self):
        status, left = self.end_by(signal.SIGTERM)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertEqual(left, [])

    def test_of_one_that_it_does_not(self):
        status, _ = self.end_by(signal.SIGKILL)
        self.assertEqual(status, -signal.SIGKILL)


if __name__ == "__main__":
    EndTest.build = sys.argv.pop(1)
    result = unittest.main(exit=False).result
    if result.skipped and result.wasSuccessful():
        sys.exit(SKIPPED)
    sys.exit(not result.wasSuccessful())
