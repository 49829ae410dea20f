"""``python -m strop.cli``, for where the ``strop`` script is not on the path."""

import sys

from strop.cli.main import main

sys.exit(main())
