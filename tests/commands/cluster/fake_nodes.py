"""Programs that look like Java, Kafka's controller and ottla to `ottla cluster`, so that its tests take no seconds.

Each writes to the file in ORDER when it starts and when it stops in order, and obeys FAULT, e.g. `broker 2 ends`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_SOURCE: Final = """#!{python}
import os, re, signal, socket, sys

def note(text):
    with open(os.environ["ORDER"], "a") as order:
        order.write(text + "\\n")

def serve(name, ready):
    fault = os.environ.get("FAULT", "")
    if fault == name + " ends":
        sys.exit("ottla: listeners: no room")
    def stop(number, frame):
        if fault != name + " stays":
            note("stop " + name)
            sys.exit(143 if name.startswith("controller") else 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # who is stopped has noted that it started
    signal.signal(signal.SIGTERM, stop)
    note("start " + name)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if fault != name + " waits":
        ready()
    while True:
        signal.pause()

words = sys.argv[1:]
if "-version" in words:
    sys.exit(print('openjdk version "21.0.1" 2023-10-17', file=sys.stderr))
file = next(word for word in words if word.endswith("server.properties"))
settings = dict(re.findall("(?m)^([a-z.]+)=(.*)$", open(file).read()))
if "kafka.tools.StorageTool" in words:
    if os.environ.get("FAULT") == "no format":
        sys.exit("it cannot")
    os.makedirs(settings["log.dirs"])
    open(settings["log.dirs"] + "/meta.properties", "w").close()
    note("format " + settings["node.id"])
elif settings["process.roles"] == "controller":
    def listen():
        import threading
        server = socket.create_server(("127.0.0.1", int(settings["listeners"].rpartition(":")[2])))
        def answer():
            while True:
                stream, _ = server.accept()
                stream.recv(14)
                stream.sendall(bytes.fromhex("0000000a 00000001 0000"))
        threading.Thread(target=answer, daemon=True).start()
    serve("controller " + settings["node.id"], listen)
else:
    note(" ".join(["with", settings["node.id"], *words[words.index(file) + 1 :]]))
    serve("broker " + settings["node.id"], lambda: print("[KafkaServer id=" + settings["node.id"] + "] started", flush=True))
"""


def program(path: Path) -> Path:
    """Makes the program, which is any of the three."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SOURCE.replace("{python}", sys.executable))
    path.chmod(0o755)
    return path


def environment(folder: Path, fault: str = "") -> dict[str, str]:
    """Returns an environment whose `java` is this program."""
    java = program(folder / "bin" / "java")
    path = f"{java.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "ORDER": str(folder / "order"), "FAULT": fault}


def order(folder: Path) -> list[str]:
    """Returns what the programs wrote."""
    path = folder / "order"
    return path.read_text().splitlines() if path.exists() else []
