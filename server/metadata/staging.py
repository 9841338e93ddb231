"""Applies the records of one large operation in steps, between which others are served: `apply_in_steps`.

Nobody may see half of an operation, and that of 10,000 records takes some 30 ms to apply. So its changes are made beside the
image first (`_Staged`), where later records of the same operation see them, and come into the image all at once, which takes a
tenth of a microsecond each. Then its events go out, again in steps. Whoever looks meanwhile finds the whole operation in the
image, while what follows the image by its events is some milliseconds behind: `MetadataImage.is_reporting` says so.

Nobody else may change the image until the last step is taken. Operations of ordinary size take one step, as at a start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.server.base.turns import Steps
from ottla.server.metadata.image import DICTIONARIES, MetadataImage

if TYPE_CHECKING:
    from ottla.server.metadata.image import Event, PartitionImage, TopicImage
    from ottla.wire.primitives import WireStruct

K = TypeVar("K")
V = TypeVar("V")

FEW_RECORDS: Final = 100
"""So many records are applied at once, with their events, which takes a millisecond or two."""
RECORDS_A_STEP: Final = 500
"""About two milliseconds of applying."""


def apply_in_steps(image: MetadataImage, records: Sequence[WireStruct], last_offset: int | None = None) -> Steps[None]:
    """Does what `MetadataImage.apply_all` does, and pauses where others may come first. Raises MetadataError, after which the
    image must not be used."""
    if len(records) <= FEW_RECORDS:
        image.apply_all(records, last_offset)
        return
    staged = _Staged(image)
    for number, record in enumerate(records, 1):
        staged.change(record)
        if number % RECORDS_A_STEP == 0:
            yield None
    yield from report_in_steps(image, staged.take_effect(last_offset))


def report_in_steps(image: MetadataImage, events: Iterable[Event]) -> Steps[None]:
    """Sends the events of what the image has already, one a step. Who subscribes meanwhile has found it there, and hears nothing
    of it."""
    image.is_reporting = True
    subscribers = tuple(image.subscribers)
    for event in events:
        for subscriber in subscribers:
            subscriber(event)
        yield None
    image.is_reporting = False


class _Pending(dict[K, V]):
    """The changes of a dictionary that it does not have yet; who reads here sees it as it will be. It has only what the records
    of metadata ask of a dictionary."""

    __slots__ = ("_gone", "_under")

    def __init__(self, under: dict[K, V]) -> None:
        super().__init__()
        self._under = under
        self._gone: dict[K, None] = {}
        """The keys of `_under` that were removed, some of which may have come back."""

    def __missing__(self, key: K) -> V:
        if key in self._gone:
            raise KeyError(key)
        return self._under[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key not in self._gone and key in self._under)

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._under if key not in self._gone)
        yield from (key for key in super().__iter__() if key in self._gone or key not in self._under)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        super().pop(key, None)
        if key in self._under:
            self._gone[key] = None

    def get(self, key: K, default: Any = None) -> Any:
        if key in self._gone or super().__contains__(key):
            return super().get(key, default)
        return self._under.get(key, default)

    def pop(self, key: K, default: Any = None) -> Any:
        found = self.get(key, default)
        if key in self:
            del self[key]
        return found

    def values(self) -> Any:
        return (self[key] for key in self)

    def items(self) -> Any:
        return ((key, self[key]) for key in self)

    def take_effect(self) -> None:
        """Makes the changes in the dictionary."""
        for key in self._gone:
            del self._under[key]
        for key, value in super().items():
            self._under[key] = value


class _Staged(MetadataImage):
    """The image as it will be after an operation that has not taken effect yet."""

    __slots__ = ("_image", "_partitions")

    def __init__(self, image: MetadataImage) -> None:
        super().__init__(image.cluster_id)
        self._image = image
        self._partitions: dict[bytes, _Pending[int, PartitionImage]] = {}
        """The changed partitions of the topics that the image has, by the topic's id."""
        for name in DICTIONARIES:
            setattr(self, name, _Pending(getattr(image, name)))
        self.next_producer_id = image.next_producer_id

    def partitions_of(self, topic: TopicImage) -> dict[int, PartitionImage]:
        if self._image.topics_by_id.get(topic.topic_id) is not topic:  # nobody else knows it yet
            return topic.partitions
        found = self._partitions.get(topic.topic_id)
        if found is None:
            found = self._partitions[topic.topic_id] = _Pending(topic.partitions)
        return found

    def take_effect(self, last_offset: int | None) -> list[Event]:
        """Makes the changes in the image; returns their events."""
        image = self._image
        image.changes += 1
        for name in DICTIONARIES:
            getattr(self, name).take_effect()
        for partitions in self._partitions.values():
            partitions.take_effect()
        image.next_producer_id = self.next_producer_id
        if last_offset is not None:
            image.highest_offset = last_offset
        return self._events
