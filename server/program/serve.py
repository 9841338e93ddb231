"""Runs `ottla serve`, from settings to a running broker, and from a signal to a clean stop.

Settings come from these sources, of which a later one overrides an earlier: the defaults of the table, the properties file, the
`KAFKA_*` environment, `--override`, and the options that have a name of their own. Two lines on standard output say that the
broker is ready: our own, with the bootstrap address, the data directory and the cluster, and Kafka's `[KafkaServer id=1]
started`, for which tools wait. If settings came from the environment, as in a container, two more follow, in
the words that tools for Kafka's containers wait for. The log goes to standard error.

If the broker cannot start, one line on standard error names the setting and what to do, and the exit code is 1. A traceback is a
bug of ours. SIGTERM and SIGINT stop the broker cleanly with exit code 0; a second signal ends the process at once.

typer and rich are not imported on this path (server/program/cli.py explains how): they would cost a sixth of the time to the
first answer.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla import __version__
from ottla.log.config_def import ConfigError
from ottla.log.disk.files import OsDisk
from ottla.log.errors import InconsistentMetadata, LogDirLocked, LogError, NoRoom, StorageError
from ottla.server.base.compiled import NOT_COMPILED, is_compiled
from ottla.server.broker.marked_directories import check_directories
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.broker_settings import BROKER_SETTINGS, advice, is_idle
from ottla.server.settings.listeners import ENCRYPTED
from ottla.server.settings.properties import LOG_LEVEL, Given, read_environment, read_file, read_overrides

if TYPE_CHECKING:
    from ottla.server.broker.broker import Broker
    from ottla.server.console.opening import OpenedConsole
    from ottla.server.testkit.lives.lives import Lives
    from ottla.server.testkit.serving import UnderTest

_log = logging.getLogger("ottla.server.serve")

_LEVELS: Final = {"TRACE": logging.DEBUG, "WARN": logging.WARNING, "FATAL": logging.CRITICAL, "OFF": logging.CRITICAL + 1}
OF_IMAGES: Final = (
    "[BrokerLifecycleManager id={}] Transitioning from RECOVERY to RUNNING",
    "[KafkaRaftServer nodeId={}] Kafka Server started",
)
"""The lines for which the Kafka modules of testcontainers wait, Java's and Go's for the first, Rust's and Python's for the second
(docs/testcontainers.md)."""
LONGEST_LINE: Final = 4_000
OF_CONSOLE: Final = "ottla.console."
CONSOLE_PORT: Final = "ottla.console.port"
TEST_PORT: Final = "ottla.test.port"
TEST_DISK: Final = "ottla.test.disk"
REAL: Final = "files"
TEST_NODES: Final = "ottla.test.nodes"
TEST_SEED: Final = "ottla.test.seed"
COLLECTOR_STEP: Final = 10_000
"""The number of new objects between two collections of the youngest; Python's default is 700. COLLECTOR_STEPS of these come
before one of the middle ones, and COLLECTOR_ROUNDS of those before one of all."""
COLLECTOR_STEPS: Final = 5
COLLECTOR_ROUNDS: Final = 400
_BAD_ADDRESS: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT)
_BAD_DISK: Final = (errno.EIO, errno.EUCLEAN, errno.ENXIO, errno.ENODEV, errno.ESTALE)
"""The kernel's error codes for a disk that does not work or is gone, or for a file system that is not whole."""


_SETTING_OF: Final = {
    "data_dir": "log.dirs",
    "node_id": "node.id",
    "metrics_port": "ottla.metrics.port",
    "console_port": CONSOLE_PORT,
    "test_port": TEST_PORT,
    "test_disk": TEST_DISK,
    "test_nodes": TEST_NODES,
    "test_seed": TEST_SEED,
}
"""The options of the command line that are a setting each."""
_FLAG_OF: Final = {"console_read_only": "ottla.console.read.only", "console_no_token": "ottla.console.no.token"}
"""The options without a value that are a setting each, then true."""
_FOR_TESTS: Final[dict[str, tuple[object, str]]] = {
    TEST_DISK: (REAL, "a disk in memory is for tests only"),
    TEST_NODES: (1, "nodes are simulated only for a test"),
    TEST_SEED: (None, "a seed is for tests only"),
}
"""Settings that need a test port: the value that each has without one, and why."""


class ServeOptions(NamedTuple):
    """Holds the options of the command line; None stands for one that was not given."""

    properties: str | None = None
    override: tuple[str, ...] = ()
    port: int | None = None
    host: str | None = None
    data_dir: str | None = None
    cluster_id: str | None = None
    node_id: int | None = None
    metrics_port: int | None = None
    console_port: int | None = None
    console_read_only: bool = False
    console_no_token: bool = False
    test_port: int | None = None
    test_disk: str | None = None
    test_nodes: int | None = None
    test_seed: int | None = None
    ready_file: str | None = None
    until_stdin_closes: bool = False
    adopt_test_data: bool = False


class CannotStart(Exception):
    """Says in one line, for the user, why the broker cannot run."""


# Settings


def gather(
    options: ServeOptions, environment: Mapping[str, str], read_bytes: Callable[[str], bytes]
) -> tuple[BrokerConfig, dict[str, Given]]:
    """Returns the broker's configuration, and each given setting with where it came from; `read_bytes` reads the properties file.
    Raises CannotStart.
    """
    given: dict[str, Given] = {}
    try:
        if options.properties is not None:
            given |= read_file(options.properties, read_bytes)
        given |= read_environment(environment)
        given |= read_overrides(options.override)
        given |= _named_options(options, given)
        texts = {name: entry.text for name, entry in given.items()}
        config, _ = BrokerConfig.from_mapping(texts, options.cluster_id or environment.get("CLUSTER_ID") or None)
    except ConfigError as error:
        key = str(error).partition(":")[0]
        origin = f" [{given[key].origin}]" if key in given else ""
        raise CannotStart(f"{error}{origin}") from error
    return config, given


def gather_here(options: ServeOptions) -> tuple[BrokerConfig, dict[str, Given]]:
    """Returns what `gather` returns, with this process's environment and files. Raises CannotStart."""
    return gather(options, os.environ, lambda path: Path(path).read_bytes())


def _named_options(options: ServeOptions, given: Mapping[str, Given]) -> dict[str, Given]:
    result = {
        setting: Given(str(value), f"--{option.replace('_', '-')}")
        for option, setting in _SETTING_OF.items()
        if (value := getattr(options, option)) is not None
    }
    result |= {
        setting: Given("true", f"--{option.replace('_', '-')}")
        for option, setting in _FLAG_OF.items()
        if getattr(options, option)
    }
    if options.port is not None or options.host is not None:
        result |= _move_listeners(given, options.host, options.port)
    return result


def _move_listeners(given: Mapping[str, Given], host: str | None, port: int | None) -> dict[str, Given]:
    """Returns `listeners` with the first one for clients moved to another host or port, and `advertised.listeners` to match.

    An advertised host or port that differs from the listener's stays as it is, because it is then that of a proxy.
    """
    origin = "--port" if port is not None else "--host"

    def entries(name: str) -> list[str]:
        text = given[name].text if name in given else None
        value = BROKER_SETTINGS[name].default if text is None else BROKER_SETTINGS[name].parse(text)
        return list(value) if isinstance(value, tuple) else []

    controllers = {name.upper() for name in entries("controller.listener.names")}
    listeners, advertised = entries("listeners"), entries("advertised.listeners")
    for at, old in enumerate(listeners):
        name, _, address = old.partition("://")
        old_host, _, old_port = address.rpartition(":")
        if name.upper() in controllers:
            continue
        new_host = old_host if host is None else f"[{host}]" if ":" in host else host
        new_port = old_port if port is None else str(port)
        listeners[at] = f"{name}://{new_host}:{new_port}"
        for place, shown in enumerate(advertised):
            shown_name, _, shown_address = shown.partition("://")
            shown_host, _, shown_port = shown_address.rpartition(":")
            if shown_name.upper() == name.upper():
                shown_port = new_port if shown_port == old_port else shown_port
                shown_host = new_host if shown_host == old_host else shown_host
                advertised[place] = f"{shown_name}://{shown_host}:{shown_port}"
        break
    moved = {"listeners": Given(",".join(listeners), origin)}
    return moved | ({"advertised.listeners": Given(",".join(advertised), origin)} if advertised else {})


def _log_ignored_settings(config: BrokerConfig, given: Mapping[str, Given]) -> None:
    """Logs settings without effect: a line for each unknown one, one line for those of a console that is not opened, and one for
    all that are known but do nothing here."""
    for name in config.unknown:
        _log.warning("%s [%s]", advice(name), given[name].origin)
    alone = sorted(name for name in given if name.startswith(OF_CONSOLE)) if config.values[CONSOLE_PORT] is None else []
    if alone:
        named = ", ".join(f"{name} [{given[name].origin}]" for name in alone)
        _log.warning(
            "%s: without effect, because there is no console without %s; --console-port N opens one", named, CONSOLE_PORT
        )
    idle = [name for name in given if is_idle(name)]
    if idle:
        _log.info("these settings are accepted but have no effect in ottla: %s", ", ".join(sorted(idle)))


# Running


def run(options: ServeOptions) -> int:
    """Runs a broker until a signal comes; returns the exit code."""
    _begin_logging(os.environ.get(LOG_LEVEL, "INFO"))
    if options.ready_file is not None:
        _remove_ready_file(options.ready_file)  # whoever waits for it must not find that of an earlier start
    _run_collector_less_often()
    try:
        config, given = gather_here(options)
        _log_ignored_settings(config, given)
        _raise_open_files()
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(config, options, in_container=_is_in_container(given)))
    except CannotStart as problem:
        print(f"ottla: {problem}", file=sys.stderr)
        return 1
    return 0


async def _serve(config: BrokerConfig, options: ServeOptions, *, in_container: bool) -> None:
    """Runs the broker, and the console beside it if it has one. Raises CannotStart."""
    console = _open_console(config)
    try:
        await _serve_broker(config, options, console, in_container=in_container)
    finally:
        if console is not None:
            await console.close()


def _open_console(config: BrokerConfig) -> OpenedConsole | None:
    """Binds the port of the console if there is one; its code is loaded only then. Raises CannotStart."""
    if config.values[CONSOLE_PORT] is None:
        return None
    from ottla.server.base.clock import LoopClock
    from ottla.server.base.network import OsNetwork
    from ottla.server.base.randomness import from_system
    from ottla.server.console.opening import OpenedConsole

    try:
        return OpenedConsole(config, OsNetwork(), from_system(), OsDisk().read_bytes, LoopClock().now_ms)
    except ConfigError as error:
        raise CannotStart(str(error)) from error


async def _serve_broker(
    config: BrokerConfig, options: ServeOptions, console: OpenedConsole | None, *, in_container: bool
) -> None:
    """Runs the broker until a signal comes or no log directory works any more. Raises CannotStart."""
    from ottla.server.broker.broker import Broker  # most of the program, which is not needed to report a wrong setting
    from ottla.wire.metadata_records import MetadataError

    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    _stop_on_signals(loop, stop)
    if options.until_stdin_closes:
        _watch_stdin(loop, stop)
    under_test = _put_under_test(config, options)
    served = Broker(config) if under_test is None else under_test.lives

    def living() -> Broker:
        return served if isinstance(served, Broker) else served.broker

    def reload() -> None:
        broker = living()
        if broker.secured is not None:  # else it is about to read them
            broker.secured.reload()

    if any(address.protocol in ENCRYPTED for address in config.all_listeners):
        loop.add_signal_handler(signal.SIGHUP, reload)  # before the first client can see the broker: by default it would end it
    try:
        if not await _start(served, stop):
            return
        if under_test is not None:
            await under_test.open()
    except ConfigError as error:
        raise CannotStart(str(error)) from error
    except (LogError, MetadataError, OSError) as error:
        raise CannotStart(_explain(error, config)) from error
    _settle_collector()
    test_url = None if under_test is None else under_test.url
    broker = living()
    if options.ready_file is not None:
        _write_ready_file(options.ready_file, broker.bootstrap, test_url)
    if console is not None:
        console.watch(living, None if under_test is None else under_test.console_questions())
    _announce(broker, config, test_url, None if console is None else console.url, in_container=in_container)
    await _wait_for_either(stop, served.offline)
    if options.ready_file is not None:
        _remove_ready_file(options.ready_file, os.getpid())
    if console is not None:
        console.end()
    if under_test is not None:
        under_test.close()
    try:
        await served.stop()
    except (LogError, OSError) as error:
        raise CannotStart(f"log.dirs: the stop was not clean, so the next start will run recovery: {error}") from error
    if served.failure is not None:
        raise CannotStart(served.failure)
    if served.offline.is_set():
        raise CannotStart("log.dirs: no directory is usable any more (the log says why); repair the disk and start again")
    _log.info("stopped")


def _put_under_test(config: BrokerConfig, options: ServeOptions) -> UnderTest | None:
    """Returns the test kit if there is a test port; its code is loaded only then. Raises CannotStart, also if the log directories
    are not for what this broker is for."""
    try:
        if config.values[TEST_PORT] is not None:
            from ottla.server.testkit.serving import UnderTest

            return UnderTest(config, OsDisk(), os.link)
        for name, (without, why) in _FOR_TESTS.items():
            if config.values[name] != without:
                raise ConfigError(f"{name}: {why}; give the broker a test port (--test-port 0)")
        check_directories(OsDisk(), config.all_log_dirs, under_test=False, adopt=options.adopt_test_data)
    except ConfigError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(_explain(error, config)) from error
    return None


def _stop_on_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    def on_signal(number: signal.Signals) -> None:
        _log.info("stopping because of %s", number.name)
        stop.set()
        for handled in (signal.SIGTERM, signal.SIGINT):  # a second signal ends the process at once
            loop.remove_signal_handler(handled)
            signal.signal(handled, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Stops the broker when its standard input ends, as it does when the program at the other end dies. Raises CannotStart."""

    def readable() -> None:
        if not sys.stdin.buffer.raw.read(4096):  # type: ignore[union-attr]  # it is a BufferedReader
            loop.remove_reader(sys.stdin.fileno())
            _log.info("stopping because the standard input was closed")
            stop.set()

    try:
        loop.add_reader(sys.stdin.fileno(), readable)
    except OSError as error:
        raise CannotStart("--until-stdin-closes: the standard input is no pipe, so nobody can close it") from error


def _write_ready_file(path: str, bootstrap: str, test_url: str | None) -> None:
    from ottla.server.program.ready_file import write_ready_file

    try:
        write_ready_file(OsDisk(), path, bootstrap, test_url, os.getpid())
    except OSError as error:
        _log.error("--ready-file: %s: %s", path, error.strerror)


def _remove_ready_file(path: str, process_id: int | None = None) -> None:
    from ottla.server.program.ready_file import remove_ready_file

    remove_ready_file(OsDisk(), path, process_id)


async def _wait_for_either(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def _start(broker: Broker | Lives, stop: asyncio.Event) -> bool:
    """Starts the broker; returns False if a signal stopped it before it was ready.

    Raises what Broker.start raises.
    """
    starting, stopping = asyncio.ensure_future(broker.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
    if starting.cancelled():
        return False
    starting.result()
    return True


def _settle_collector() -> None:
    """Keeps the garbage collector away from the objects that exist now, because they will stay. The few hundred among them that
    are garbage stay as well: to look for them would take 7 ms, in which the first client waits."""
    gc.freeze()


def _run_collector_less_often() -> None:
    """Makes the garbage collector run less often than Python does by default.

    A start, and an answer about many partitions, make more objects than Python's default step, none of them in a cycle, and the
    collector took half of an answer's time. But nobody is served during a collection: one of a million objects, which requests
    about 20,000 partitions each make, took 60 ms. So the middle one looks at few, and the one of all is rare.
    """
    gc.set_threshold(COLLECTOR_STEP, COLLECTOR_STEPS, COLLECTOR_ROUNDS)


def _is_in_container(given: Mapping[str, Given]) -> bool:
    """Returns whether settings came from variables, as those of Kafka's container image do."""
    return any(entry.origin.startswith("KAFKA_") for entry in given.values())


def _announce(broker: Broker, config: BrokerConfig, test_url: str | None, console_url: str | None, *, in_container: bool) -> None:
    if not is_compiled():
        _log.info(NOT_COMPILED)
    directories = ", ".join(config.log_dirs) if config.values[TEST_DISK] == REAL else f"in {config.values[TEST_DISK]}"
    more = f", metrics {broker.metrics_url}/metrics" if broker.metrics_url is not None else ""
    more += f", console {console_url}" if console_url is not None else ""
    more += f", UNDER TEST at {test_url}" if test_url is not None else ""
    nodes = config.values[TEST_NODES]
    more += f", {nodes} SIMULATED nodes" if nodes > 1 else ""
    print(f"ottla {__version__} ready: bootstrap {broker.bootstrap}, data {directories}, cluster {broker.cluster_id}{more}")
    print(f"[KafkaServer id={config.node_id}] started")
    if in_container:
        for line in OF_IMAGES:
            print(line.format(config.node_id))
    sys.stdout.flush()


def _explain(error: Exception, config: BrokerConfig) -> str:
    """Returns one line about a failed start: the setting behind it, what is wrong, and what to do."""
    from ottla.server.metadata.cluster import CannotJoin  # loaded by every broker that came so far

    match error:
        case CannotJoin():
            return str(error)
        case LogDirLocked():
            return f"log.dirs: {error}; stop that broker, or use another directory (--data-dir DIR)"
        case InconsistentMetadata() if " belong" not in str(error):  # files that are damaged or missing
            return f"log.dirs: {error}; ottla log verify shows what is wrong, or use another directory (--data-dir DIR)"
        case InconsistentMetadata():
            return f"log.dirs: {error}; give --cluster-id and --node-id as the directory has them, or another --data-dir"
        case OSError(filename=None) if isinstance(error, socket.gaierror) or error.errno in _BAD_ADDRESS:
            remedy = "stop what listens there, or choose" if error.errno == errno.EADDRINUSE else "choose"
            addresses = ", ".join(str(listener) for listener in config.listeners)
            return f"listeners: {addresses}: {error.strerror}; {remedy} another address (--host HOST, --port N, 0 for a free one)"
        case NoRoom():
            return f"log.dirs: {error}; make room, or allow more open files (ulimit -n), and start again"
        case StorageError() | OSError() if _is_fault_of_disk(error):
            return (
                f"log.dirs: {error}; this is a fault of the disk, not of what is on it: see what the kernel's log (dmesg) says "
                "of it, repair or replace it, and start again"
            )
        case FileExistsError() | NotADirectoryError():
            return f"log.dirs: {error.filename}: not a directory; choose another (--data-dir DIR)"
        case OSError():
            path = error.filename or ", ".join(config.log_dirs)
            return f"log.dirs: {path}: {error.strerror or error}; make it writable, or choose another directory (--data-dir DIR)"
        case _:
            return f"log.dirs: {', '.join(config.log_dirs)}: {error}"


def _is_fault_of_disk(error: Exception) -> bool:
    """Returns whether the kernel could not read or write. Where a directory went offline while its partitions were opened, only
    the text is left of that."""
    causes = (error, error.__cause__)
    return any(isinstance(each, OSError) and each.errno in _BAD_DISK for each in causes) or any(
        f"[Errno {code}]" in str(error) for code in _BAD_DISK
    )


def _begin_logging(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(
        level=_LEVELS.get(level.upper(), logging.getLevelNamesMapping().get(level.upper(), logging.INFO)),
        handlers=[handler],
    )


class LineFormatter(logging.Formatter):
    """Makes every message one line of at most LONGEST_LINE characters, whatever clients call themselves and their groups."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = "".join(c if c.isprintable() else repr(c)[1:-1] for c in record.message[:LONGEST_LINE])
        return super().formatMessage(record)


def _raise_open_files() -> None:
    """Allows as many open files as the hard limit: connections and segments take one each, and the usual soft limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Returns what makes the event loop: uvloop if it is installed, otherwise asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
