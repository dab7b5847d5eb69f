"""Commands with a time limit: none of them can block the run, and their output until then is kept."""

import os
import queue
import signal
import subprocess
import tempfile
import threading
import time

# Characters of a command's error output that a result keeps.
KEPT = 2000


class Step:
    """A finished command of a stage: its state and output."""

    def __init__(self, name, state, seconds, out="", err="", detail=""):
        self.name, self.state, self.seconds, self.out, self.err, self.detail = name, state, seconds, out, err, detail

    @property
    def ok(self):
        return self.state == "ok"

    def record(self):
        """The entry in the result file."""
        record = {"name": self.name, "state": self.state, "seconds": round(self.seconds, 2)}
        if self.detail:
            record["detail"] = self.detail
        return record


def kill(process):
    """Kills a process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def call(name, command, limit, env=None, accept=(0,), cwd=None):
    """Runs a command for at most `limit` seconds. States: ok, failed, timeout, missing."""
    if limit <= 0:
        return Step(name, "timeout", 0, detail="not started: the stage ran out of time")
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                       cwd=cwd, start_new_session=True)
        except OSError as error:
            missing = isinstance(error, (FileNotFoundError, PermissionError))
            return Step(name, "missing" if missing else "failed", 0, detail=f"`{command[0]}` cannot be started: {error.strerror}")
        try:
            code = process.wait(limit)
            state, detail = ("ok", "") if code in accept else ("failed", f"exit code {code}" if code >= 0 else f"signal {-code}")
        except subprocess.TimeoutExpired:
            kill(process)
            state, detail = "timeout", f"stopped after {limit:.0f} s"
        except BaseException:
            kill(process)
            raise
        # Leftover children would slow down the next step.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if state != "ok":
        last = (texts[1].strip() or texts[0].strip())[-KEPT:]
        detail = f"{detail}: {last}" if last else detail
    return Step(name, state, time.monotonic() - started, *texts, detail)


class LineProtocol:
    """A program that prints one line for each line it receives."""

    def __init__(self, command, env=None):
        self.errors = tempfile.TemporaryFile()
        self.lines = queue.Queue()
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=env, text=True, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self):
        """Requests the next line."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except OSError:
            pass  # The program ended; `line` reports why.

    def line(self, limit):
        """The next line. Raises RuntimeError if the program ended or took too long."""
        try:
            line = self.lines.get(timeout=max(limit, 0))
        except queue.Empty:
            raise RuntimeError(f"no answer within {limit:.0f} s") from None
        if line is None:
            code = self.process.wait()
            self.errors.seek(0)
            raise RuntimeError(f"exit code {code}: {self.errors.read().decode(errors='replace').strip()[-KEPT:]}")
        return line

    def close(self):
        """Kills the program."""
        kill(self.process)
        self.process.stdin.close()
        self.errors.close()
