"""The client under test: a program that reads commands as lines of JSON, and answers each with a line."""

import json
import queue
import subprocess
import threading

ANSWER_SECONDS = 60


class Broken(Exception):
    """The program does not follow the line protocol, so nothing can be said about its client."""


class Driver:
    def __init__(self, command, on_event, show=None):
        self._on_event, self._show = on_event, show
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", bufsize=1)
        except OSError as error:
            raise Broken(f"cannot start {command[0]}: {error.strerror}") from error
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def send(self, command):
        """Sends a command and returns the answer, a dict. Events before the answer are passed on."""
        text = json.dumps(command, ensure_ascii=False, separators=(",", ":"))
        if self._show:
            self._show(f"> {text}")
        try:
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()
        except OSError:
            # The program has ended. What it wrote before says more.
            pass
        while True:
            try:
                line = self._lines.get(timeout=ANSWER_SECONDS)
            except queue.Empty:
                raise Broken(f"no answer to {command['do']} within {ANSWER_SECONDS} seconds") from None
            if line is None:
                raise Broken(f"the program ended during {command['do']}")
            if self._show:
                self._show(f"< {line.rstrip()}")
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict) or not ("event" in message or isinstance(message.get("ok"), bool)):
                raise Broken(f"no line of the protocol: {line.strip()[:200]}")
            if "event" not in message:
                return message
            self._on_event(message)

    def stop(self):
        """Closes the program's input, and ends it if it does not end by itself."""
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
