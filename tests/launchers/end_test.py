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
            end = time.monotonic() + PATIENCE
            while started_below(directory) and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(started_below(directory), [])
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
