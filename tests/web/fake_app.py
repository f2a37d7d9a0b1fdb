"""Stands for the app: speaks its packets, and does what is typed into it."""

import json
import os
import sys
import time
from typing import Any

PRELUDE = b"__GANGLION__\n"


def write(kind: bytes, payload: bytes) -> None:
    os.write(1, kind + len(payload).to_bytes(4, "big") + payload)


def say(**values: Any) -> None:
    write(b"D", json.dumps(values).encode())


def meta(**values: Any) -> None:
    write(b"M", json.dumps(values).encode())


def main() -> None:
    print("something that was printed before")
    sys.stdout.flush()
    os.write(1, PRELUDE)
    size = [os.environ["COLUMNS"], os.environ["ROWS"]]
    say(pid=os.getpid(), arguments=sys.argv[1:], size=size, term=os.environ["TERM"])
    read = sys.stdin.buffer.read
    stubborn = False
    while head := read(5):
        payload = read(int.from_bytes(head[1:], "big"))
        if head[:1] == b"M":
            told = json.loads(payload)
            if told["type"] == "attach":
                say(stale=True)  # drawn for whoever was there before
                meta(type="attached")
                say(pid=os.getpid(), **told)
            elif told["type"] != "quit":
                say(**told)
            elif not stubborn:
                meta(type="exit")
                return
            continue
        match payload.decode().split(" ", 1):
            case ["exit", code]:
                meta(type="exit")
                time.sleep(0.2)
                sys.exit(int(code))
            case ["open", url]:
                meta(type="open_url", url=url, new_tab=True)
            case ["stubborn"]:
                import signal

                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                stubborn = True
                say(stubborn=True)
            case ["flood"]:
                for _ in range(400):
                    write(b"D", b"x" * 65536)
                say(flooded=True)
            case _:
                say(typed=payload.decode())


main()
