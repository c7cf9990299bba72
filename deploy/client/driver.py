"""The client under test: a program that reads commands as lines of JSON, and answers each with a line."""

import json
import os
import queue
import select
import subprocess
import threading
import time

ANSWER_SECONDS = 60


class Broken(Exception):
    """The program does not follow the line protocol, so nothing can be said about its client."""


class Driver:
    """Events are passed on as they are read, in a thread of their own."""

    def __init__(self, command, on_event, show=None):
        self._on_event, self._show = on_event, show
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise Broken(f"cannot start {command[0]}: {error.strerror}") from error
        self._reading = threading.Lock()
        self._has_ended = False
        self._answers = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        output = self._process.stdout.fileno()
        rest = b""
        while not self._has_ended:
            select.select([output], [], [])
            with self._reading:
                part = os.read(output, 65536)
                *lines, rest = (rest + part).split(b"\n")
                try:
                    for line in lines:
                        self._take(line.decode("utf-8", "replace"))
                except Broken as broken:
                    self._answers.put(broken)
                if not part:
                    self._has_ended = True
                    self._answers.put(None)

    def _take(self, line):
        if self._show:
            self._show(f"< {line}")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or not ("event" in message or isinstance(message.get("ok"), bool)):
            raise Broken(f"no line of the protocol: {line.strip()[:200]}")
        if "event" in message:
            self._on_event(message)
        else:
            self._answers.put(message)

    def catch_up(self):
        """Waits until all is read that the program has written so far: it wrote that before its request."""
        while True:
            with self._reading:
                if self._has_ended or not select.select([self._process.stdout], [], [], 0)[0]:
                    return
            time.sleep(0.001)

    def send(self, command):
        """Sends a command and returns the answer, a dict."""
        text = json.dumps(command, ensure_ascii=False, separators=(",", ":"))
        if self._show:
            self._show(f"> {text}")
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            # The program has ended. What it wrote before says more.
            pass
        try:
            answer = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise Broken(f"no answer to {command['do']} within {ANSWER_SECONDS} seconds") from None
        if answer is None:
            raise Broken(f"the program ended during {command['do']}")
        if isinstance(answer, Broken):
            raise answer
        return answer

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
        self._thread.join(timeout=5)
