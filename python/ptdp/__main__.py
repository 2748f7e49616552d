"""`python -m ptdp` and the script `ptdp`: become the command."""

import os
import sys

from ptdp._runtime import PROGRAM


def main() -> None:
    os.execv(PROGRAM, [PROGRAM, *sys.argv[1:]])


if __name__ == "__main__":
    main()
