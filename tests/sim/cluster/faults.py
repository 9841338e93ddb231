"""The faults of a simulated cluster: nodes, their disks and clocks, the network between them, and the controllers.

Each fault happens once when it is called, and ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from tests.sim.cluster.controller import SESSION_S
from tests.sim.cluster.network import FabricLink
from tests.sim.cluster.quorum import HOST
from tests.sim.cluster.world import ClusterWorld, Node

Fault = Callable[[ClusterWorld, Random], Coroutine[Any, Any, None]]
_PATHS: Final = ("/t-", "/t-", "/__cluster_metadata", "checkpoint", "")


def _node(world: ClusterWorld, random: Random) -> Node:
    return world.nodes[random.choice(list(world.nodes))]


async def _for_a_while(random: Random) -> None:
    """Waits, sometimes longer than a session lasts."""
    least_s, most_s = random.choice(((0.0, 0.3), (0.0, 1.0), (1.1 * SESSION_S, 2.2 * SESSION_S)))
    await asyncio.sleep(random.uniform(least_s, most_s))


async def kill(world: ClusterWorld, random: Random) -> None:
    """Kills a process; what it has written stays."""
    _node(world, random).kill()


async def keep_away(world: ClusterWorld, random: Random) -> None:
    """Kills a process, which comes back only after several sessions."""
    node = _node(world, random)
    node.away_s = random.uniform(2 * SESSION_S, 4 * SESSION_S)
    node.kill()


async def kill_at_a_write(world: ClusterWorld, random: Random) -> None:
    """Kills a process at one of the next changes of its disk."""
    node = _node(world, random)
    node.crash_at(random.choice((random.randrange(4), random.randrange(40))), node.kill)


async def cut_power(world: ClusterWorld, random: Random) -> None:
    """Cuts the power of one node, which loses what it has not synced, now or at one of the next changes of its disk."""
    if not world.may_lose_power():
        return
    node = _node(world, random)
    if random.random() < 0.5:
        world.lose_power(node)
    else:
        node.crash_at(random.randrange(20), lambda: world.lose_power(node) if world.may_lose_power() else node.kill())


async def stop(world: ClusterWorld, random: Random) -> None:
    """Stops a broker cleanly, which goes on when all is repaired."""
    await asyncio.shield(_node(world, random).stop())


async def pause(world: ClusterWorld, random: Random) -> None:
    """Has a process stand still, sometimes for longer than its session."""
    node = _node(world, random)
    life = node.life
    node.pause()
    await _for_a_while(random)
    if node.life == life:
        node.resume()


async def part(world: ClusterWorld, random: Random) -> None:
    """Cuts what goes from one host to another, or both ways, or a whole node off."""
    hosts = [*(node.host for node in world.nodes.values()), HOST]
    source, target = random.sample(hosts, 2)
    pairs = [(source, target)]
    if random.random() < 0.5:
        pairs.append((target, source))
    if random.random() < 0.3:
        pairs += [(source, each) for each in hosts if each not in (source, target)]
    world.say(f"nothing arrives from/at {pairs}")
    for pair in pairs:
        world.fabric.part(*pair)
    await _for_a_while(random)
    for pair in pairs:
        world.fabric.join(*pair)
    world.say(f"the network is whole again between {pairs}")


async def break_link(world: ClusterWorld, random: Random) -> None:
    """Breaks one connection, at once, in the middle of a frame, or by making it slow or deaf."""
    links = [link for link in world.fabric.links if link.open]
    if not links:
        return
    link: FabricLink = random.choice(links)
    what = random.choice(("cut", "cut", "cut_after", "swallow", "slow_down"))
    world.say(f"the connection {link.hosts[0]} to {link.hosts[1]}: {what}")
    match what:
        case "cut_after":
            link.cut_after(random.randrange(400))
        case "slow_down":
            link.slow_down(random.choice((0.05, 0.6, 1.8)))
        case _:
            getattr(link, what)()


async def fill_disk(world: ClusterWorld, random: Random) -> None:
    """Has one of the next operations of a disk fail."""
    _node(world, random).fail_disk(random, _PATHS)


async def set_clock(world: ClusterWorld, random: Random) -> None:
    """Sets the wall clock of a node."""
    _node(world, random).set_clock(random.choice((-2000, 0, 300, 5000)))


async def elect(world: ClusterWorld, random: Random) -> None:
    """Has the preferred replica of a partition lead it."""
    if not world.quorum.away:
        world.quorum.controller.prefer(random.choice(world.partitions()))


async def change_controller(world: ClusterWorld, random: Random) -> None:
    """Takes the active controller away; another one leads after a while."""
    if world.quorum.away:
        return
    world.say("the active controller is gone")
    world.quorum.hang_up()
    await _for_a_while(random)
    if world.quorum.away:
        world.quorum.fail_over()
        world.say(f"a controller leads in epoch {world.quorum.controller.epoch}")


FAULTS: Final[tuple[Fault, ...]] = (
    kill,
    keep_away,
    kill_at_a_write,
    cut_power,
    stop,
    pause,
    part,
    break_link,
    fill_disk,
    set_clock,
    elect,
    change_controller,
)
