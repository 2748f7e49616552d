"""`python -m ptdp` and the scripts `ptdp`, `ptdp-plan` ...: become the command."""

import os
import sys

from ptdp._runtime import PROGRAM


def main() -> None:
    # The program is the command by whose name it is called.
    name = os.path.basename(sys.argv[0])
    os.execv(PROGRAM, [name if name.startswith("ptdp-") else PROGRAM, *sys.argv[1:]])


if __name__ == "__main__":
    main()
