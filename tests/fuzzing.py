"""schemathesis as a command, against a server that runs."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Run:
    """One run with all checks.

    Attributes:
        contract: Path of the OpenAPI document.
        url: Of the server.
        config: Text of schemathesis.toml.
        environment: Set for it; SCHEMATHESIS_HOOKS names a module that it loads.
        examples: Requests for each operation, at most.
        seed: Of what is generated.
    """

    contract: str
    url: str
    config: str
    environment: Mapping[str, str]
    examples: int
    seed: int

    def in_directory(self, directory: Path) -> None:
        """Fuzz every operation; raise if an answer is not what the contract says."""
        config = directory / "schemathesis.toml"
        config.write_text(self.config)
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
            *(self.contract, "--url", self.url, "--checks", "all"),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", str(self.examples)),
            *("--seed", str(self.seed), "--generation-database", "none", "--no-color"),
            *("--warnings", "off"),
        ]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | dict(self.environment)
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
