"""Puts a test kit and its port around a broker that `ottla serve` runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.log.config_def import Secret
from ottla.server.base.clock import LoopClock
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed, from_system
from ottla.server.broker.marked_directories import check_directories
from ottla.server.testkit.disk.memory_disk import MemoryDisk
from ottla.server.testkit.kit import Kit
from ottla.server.testkit.lives.homes import Given
from ottla.server.testkit.lives.lives import Lives
from ottla.server.testkit.port import HOST, PORT, TOKEN, TestPort

if TYPE_CHECKING:
    from ottla.log.disk.files import Disk
    from ottla.server.settings.broker_config import BrokerConfig
    from ottla.server.testkit.console_questions import ConsoleQuestions
    from ottla.server.testkit.lives.copies import Link

DISK: Final = "ottla.test.disk"
MEMORY: Final = "memory"
NODES: Final = "ottla.test.nodes"
SEED: Final = "ottla.test.seed"

logger = logging.getLogger("ottla.server.testkit")


class UnderTest:
    """The kit of a served broker, and the port at which it is controlled. Call `open` when the broker serves, and `close`
    once."""

    def __init__(self, config: BrokerConfig, disk: Disk, link: Link) -> None:
        """`disk` is where the log directories are, unless the settings say that they are in memory. `link` gives a file a second
        name, for snapshots, which lie beside the first log directory. Raises ConfigError if the port would be open to others
        without a token, or if a test must not touch the directories; and OSError."""
        values = config.values
        token = values[TOKEN]
        given: int | None = values[SEED]
        seed = from_system().getrandbits(32) if given is None else given
        clock = LoopClock()
        self.kit = Kit(clock, from_seed(seed))
        in_memory = values[DISK] == MEMORY
        used: Disk = MemoryDisk(clock.now_ms) if in_memory else disk
        check_directories(used, config.all_log_dirs, under_test=True, adopt=False)
        home = Given(used, config.all_log_dirs, f"{config.log_dirs[0]}-snapshots")
        around, linked = self.kit.around, None if in_memory else link
        chances = None if given is None else from_seed(given)
        self.lives = self.kit.lives = Lives(clock, chances, around, config, used, home, link=linked)
        self._port: int = values[PORT]
        self._server = TestPort(self.kit, OsNetwork(), values[HOST], token.reveal() if isinstance(token, Secret) else None)
        logger.warning(
            "this broker is under test: whoever reaches its test port may break it; its chances have the seed %d", seed
        )
        if self.lives.nodes is not None:
            logger.warning(
                "its %d nodes are simulated: they are this one broker, and there is one copy of each partition", values[NODES]
            )

    @property
    def url(self) -> str:
        """Returns the URL of the test port, without a path."""
        return self._server.url

    def console_questions(self) -> ConsoleQuestions:
        """Returns what answers a console's questions about the kit."""
        from ottla.server.testkit.console_questions import ConsoleQuestions  # not loaded without a console

        return ConsoleQuestions(self.kit)

    async def open(self) -> None:
        """Opens the test port, or stops the broker. Raises ConfigError if the address cannot be bound."""
        try:
            await self._server.open(self._port)
        except BaseException:
            await self.lives.stop()
            raise

    def close(self) -> None:
        """Closes the test port."""
        self._server.close()
