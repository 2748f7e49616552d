"""ptdp: how to train a large transformer on your GPUs, and what that will cost.

`plan`, `simulate`, `validate`, `calibrate`, `show`, `compare`, `export` ... run the command `ptdp`
that is in this package. Flags are keyword arguments, answers have attributes, and a failure is a
CommandError."""

from ptdp._runtime import *  # noqa: F403
from ptdp.answers import *  # noqa: F403
from ptdp.commands import *  # noqa: F403
from ptdp.commands import __version__ as __version__
