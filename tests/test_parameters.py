"""Disk, clock, network and randomness are parameters: nothing in the server or the log asks the system for them itself.

Each test names the modules that may: those that implement the parameter with the operating system, and a few that say why. What
is asked of the system without being a parameter, and so cannot be simulated, is named as well: processes that are started, the
environment, and the authorities that the system trusts.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def uses(source: str) -> Iterator[str]:
    """Yields what a module uses by its full name, however it was imported: `time.monotonic`. The name of a parameter or variable
    has a dot in front: `.self.log.path`. A call ends in `()`, `(0)`, `(timeout=)` or `(...)`, depending on its arguments.
    """
    nodes = list(ast.walk(ast.parse(source)))
    imported: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            whole = ((each.asname or each.name.partition(".")[0], each) for each in node.names)
            imported |= {called: each.name if each.asname else called for called, each in whole}
        elif isinstance(node, ast.ImportFrom):
            imported |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    inner |= {id(node.func) for node in nodes if isinstance(node, ast.Call)}

    def name(node: ast.expr) -> str:
        match node:
            case ast.Name(called):
                return imported.get(called, called if hasattr(builtins, called) else f".{called}")
            case ast.Attribute(value, attribute):
                return f"{name(value)}.{attribute}"
            case ast.Call(function, arguments, keywords):
                return f"{name(function)}({given(arguments, keywords)})"
        return "?"

    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call) and id(node) not in inner:
            yield name(node)


def given(arguments: list[ast.expr], keywords: list[ast.keyword]) -> str:
    if any(each.arg == "timeout" for each in keywords):
        return "timeout="
    if [ast.unparse(each) for each in arguments] == ["0"] and not keywords:
        return "0"
    return "..." if arguments or keywords else ""


@functools.cache
def used() -> dict[str, set[str]]:
    """The names that each module of the server and the log uses."""
    paths = [path for folder in ("server", "security", "log") for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): set(uses(path.read_text())) for path in paths}


def modules_using(pattern: str) -> set[str]:
    """The modules that use a name which fits the pattern."""
    fits = re.compile(pattern, re.VERBOSE).fullmatch
    return {module for module, names in used().items() if any(map(fits, names))}


CLOCK = r"""
    time\.(?!gmtime$|gmtime\(\.\.\.\)$|strftime).+ | .+\.time(\(\))?
    | datetime\.datetime\.(now|utcnow|today).* | datetime\.date\.today.*
    | asyncio\.(sleep(?!\(0\))|wait_for|timeout|timeout_at).* | .*\(timeout=\)(\..*)?
    | .*(?<!clock)\.call_(later|at).* | (?!asyncio\.|\.self\.wait).+\.wait\((0|\.\.\.)\) | threading\.Timer.*
"""
DISK = r"""
    open(\(.*)? | io\.(open|FileIO).* | (pathlib|shutil|tempfile|glob|fcntl|mmap)\..+
    | os\.(?!path\.(abspath|basename|dirname|join)\b|environ\b|strerror\b|sendfile\b|sysconf\b|getpid\b|cpu_count\b|nice\b).+
"""
NETWORK = r"""
    socket\.(socket|socketpair|create_connection|create_server|fromfd|getaddrinfo|gethostby\w+|gethostname|getfqdn)(\(.*)?
    | .*\.(getaddrinfo|getnameinfo|create_server|create_connection|create_datagram_endpoint|sock_\w+)(\(.*)?
    | asyncio\.(open_connection|start_server).*
"""
PROCESSES = r"""
    subprocess\.(Popen|run|call|check_\w+|get\w+)(\(.*)? | asyncio\.create_subprocess_\w+.* | .*\.subprocess_(exec|shell)(\(.*)?
    | os\.(fork|exec|spawn|posix_spawn|system|popen).* | multiprocessing\..+
"""
ENVIRONMENT = r"os\.(environ|environb|getenv|putenv|unsetenv)\b.*"
TRUST_STORE = r"ssl\.(create_default_context|get_default_verify_paths).* | .*\.(load_default_certs|set_default_verify_paths).*"
RANDOMNESS = r"random\.(?!Random$).+ | (uuid|secrets)\..+ | os\.(urandom|getrandom).*"


def test_names_are_found_however_they_were_imported() -> None:
    source = """
import asyncio, os.path, time as t
from asyncio import wait_for
from pathlib import Path as P
t.monotonic()
later = t.sleep
P(name).read_bytes()
os.path.exists(path)
wait_for(done, 1)
asyncio.sleep(0)
asyncio.get_running_loop().time()
self._clock.call_later(1, rang.set)
queue.get(timeout=5)
"""
    names = list(uses(source))
    for expected in (
        "time.monotonic()", "time.sleep", "pathlib.Path(...).read_bytes()", "os.path.exists(...)", "asyncio.wait_for(...)",
        "asyncio.sleep(0)", "asyncio.get_running_loop().time()", ".self._clock.call_later(...)", ".rang.set",
        ".queue.get(timeout=)",
    ):  # fmt: skip
        assert expected in names


def test_the_clock_is_a_parameter() -> None:
    assert modules_using(CLOCK) == {
        "server/base/clock.py",
        "log/compaction/process.py",  # a process of its own, with no event loop
    }


def test_the_disk_is_a_parameter() -> None:
    assert modules_using(DISK) == {
        "log/disk/files.py",
        "log/compaction/process.py",  # its standard output
        "security/password_file.py",  # who may write to the file, which no disk tells
        "security/pem.py",  # memory through which a key reaches OpenSSL
        "server/console/child.py",  # the descriptor that tells of a process's end
        "server/dispatch/reserved_descriptors.py",  # holds descriptors, not data
        "server/network/receive_buffers.py",  # memory that no file is behind
        "server/program/cli.py",  # whether the first argument is a file
        "server/program/serve.py",  # the properties file that the command line names
    }


def test_the_network_is_a_parameter() -> None:
    assert modules_using(NETWORK) == {
        "server/base/network.py",
        "server/console/child.py",  # a pair of sockets to a process
        "server/console/port.py",  # the type of a socket that the network has bound
    }


def test_who_starts_processes_is_known() -> None:
    """A process is no parameter: the program is this package itself, and a test gives its owner another way to start it."""
    assert modules_using(PROCESSES) == {
        "server/console/child.py",  # `launch`, which whoever opens the console is given
        "server/partitions/cleaning.py",  # a worker that compacts, unless another `new_worker` is given, or another disk
    }


def test_who_looks_at_the_environment_is_known() -> None:
    assert modules_using(ENVIRONMENT) == {
        "server/console/child.py",  # what of it the console's process gets
        "server/program/cli.py",  # whether a shell asks for completions
        "server/program/serve.py",  # the settings of a container, and the log level
        "server/security/kerberos_config.py",  # the only way to name Kerberos's configuration to its library
    }


def test_who_trusts_what_the_system_trusts_is_known() -> None:
    """The `ssl` module reads the authorities of the system by itself, from files that no Disk knows. Other authorities are read
    by way of a parameter."""
    assert modules_using(TRUST_STORE) == {
        "server/security/key_sets.py",  # for keys from an https URL, without a truststore in the login module
        "server/security/tls.py",  # towards other nodes, without a truststore
    }


def test_randomness_is_a_parameter() -> None:
    assert modules_using(RANDOMNESS) == {"server/base/randomness.py"}
