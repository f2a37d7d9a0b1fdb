"""The step loop that joins cache, scheduler, attention and model, in its own thread."""

import os

# torch's OpenMP threads spin between the hundreds of small parallel parts of a forward. By default they
# spin so long that any other busy process (or the screen) on the same cores slows a forward about seven
# times; spinning a little and then sleeping costs nothing on an idle machine. Read when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")
