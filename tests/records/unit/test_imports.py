from __future__ import annotations

import subprocess
import sys


def test_records_need_no_client_and_no_spark() -> None:
    code = (
        "import sys, semel.records; print(sorted({name.split('.')[0] for name in sys.modules} & {'kafka',"
        " 'pyspark', 'typer', 'pandas'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
