"""A store whose every sync is noted, and what a power cut would leave of it.

Without a C compiler these tests fail, and say so: passing over them would claim what nobody saw.
"""

import os
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from aggregator.machine.embedded import EmbeddedServer, find_server

SOURCE = Path(__file__).with_name("syncs.c")


@dataclass(frozen=True)
class NotedProgram:
    """A store program that notes its syncs.

    Attributes:
        program: For `EmbeddedServer.start`.
        notes: Where it notes them.
    """

    program: Path
    notes: Path

    @classmethod
    def build(cls, directory: Path, delay_ms: int = 0) -> "NotedProgram":
        """Compile the shim and wrap the store's program with it."""
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        assert compiler is not None, (
            "this test plays a power cut with a small C library and needs a C compiler: install "
            "gcc (Debian, Ubuntu: apt install gcc libc6-dev)"
        )
        library, notes = directory / "syncs.so", directory / "notes"
        # _FORTIFY_SOURCE and friends are left to the compiler's defaults.
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        program = directory / "noted-server"
        variables = f"LD_PRELOAD={library} SYNC_NOTES={notes}"
        if delay_ms:
            variables += f" SYNC_DELAY_MS={delay_ms}"
        program.write_text(f'#!/bin/sh\nexec env {variables} {find_server()} "$@"\n')
        program.chmod(stat.S_IRWXU)
        return cls(program, notes)

    def events(self) -> list[tuple[str, float, int, str]]:
        """What was noted of append-only files: what, monotonic time, size, path.

        What is covers, begun and synced for each sync in turn, of covers the time of the last write
        that the sync covers.
        """
        if not self.notes.exists():
            return []
        lines = (line.split(" ", 3) for line in self.notes.read_text().splitlines())
        return [
            (what, float(at), int(size), path)
            for what, at, size, path in lines
            if ".aof" in Path(path).name and ".manifest" not in Path(path).name
        ]

    def cut_power(self, server: EmbeddedServer) -> int:
        """Kill the store and leave of its append-only files what was synced; return bytes lost."""
        os.kill(server.pid, 9)
        server.stop()
        kept: dict[str, int] = {}
        for what, _, size, path in self.events():
            kept.setdefault(path, 0)
            if what == "synced":
                kept[path] = max(kept[path], size)
        lost = 0
        for file in (server.socket.parent / "appendonlydir").glob("*.incr.aof"):
            size = kept.get(str(file), 0)
            lost += file.stat().st_size - size
            os.truncate(file, size)
        return lost

    def wait_between_syncs(self) -> None:
        """Return at a moment when no background sync runs, starts or has just ended.

        They start a second after one another, so 0.1 s after the last one's end, and less than
        0.8 s after its begin, none is near.
        """
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            events = self.events()
            if events and events[-1][0] == "synced":
                begun = max(at for what, at, _, _ in events if what == "begun")
                now = time.monotonic()
                if events[-1][1] + 0.1 < now < begun + 0.8:
                    return
            time.sleep(0.01)
        raise AssertionError("the store's syncs never paused")
