"""`python -m tcpwhy`: the command."""

import sys

from tcpwhy import _native


def main() -> None:
    """Runs the command `tcpwhy` with the arguments of this process, and ends it."""
    sys.stdout.flush()
    sys.stderr.flush()
    _native.main(["tcpwhy", *sys.argv[1:]])


if __name__ == "__main__":
    main()
