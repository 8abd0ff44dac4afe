"""`python -m benchmarks.gpu.device`: the machine as JSON, asked in a process that then ends."""

import json

from benchmarks import hardware

if __name__ == "__main__":
    print(json.dumps(hardware.describe()))
