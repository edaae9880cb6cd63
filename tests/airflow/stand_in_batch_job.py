"""A batch job without Spark: says what it was called with. STAND_IN=fail has it end with an error on several lines,
STAND_IN=wait has it wait until the process that started it is gone.
"""

import os
import sys

print(f"called with {sys.argv[1:]}", flush=True)
if os.environ.get("STAND_IN") == "wait":
    sys.stdin.read()
if os.environ.get("STAND_IN") == "fail":
    print("java.lang.Error: of something that was mended", file=sys.stderr)
    print("SchemaMismatchError: the fact table is missing\n  create it", file=sys.stderr)
    sys.exit(1)
