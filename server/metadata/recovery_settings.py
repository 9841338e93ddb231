"""Reads a topic's settings from the metadata log on disk, for a recovery that comes before the broker has loaded its metadata.

Whether the end of a log is a torn tail or damage may depend on the topic's `flush.messages` (log/opening/torn_tail.py). That is
asked only for a log that must be cut, so the whole metadata is read each time. The metadata log may not be recovered yet itself:
what counts is its newest snapshot and the sound batches behind it. If it cannot be read, the broker's own settings count; a
broker whose metadata is not readable does not start anyway.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.log.errors import CorruptRecord
from ottla.log.names import LOG_SUFFIX, offset_in
from ottla.log.scan import walk_batches
from ottla.server.metadata import snapshot
from ottla.server.metadata.controller_settings import current_settings
from ottla.server.metadata.image import TOPIC, MetadataImage
from ottla.server.metadata.metadata_log import Transactions
from ottla.server.metadata.names import CLUSTER_METADATA
from ottla.wire.batch import check_crc, read_header
from ottla.wire.frame import MALFORMED
from ottla.wire.metadata_records import MetadataError, decode_value
from ottla.wire.records import decode_records

if TYPE_CHECKING:
    from ottla.log.config import LogConfig
    from ottla.log.disk.files import Disk
    from ottla.server.settings.broker_config import BrokerConfig

logger = logging.getLogger("ottla.server.metadata")


def read_topic_settings(disk: Disk, config: BrokerConfig, topic: str) -> LogConfig:
    """Returns the settings that the topic has by the metadata on disk."""
    image = MetadataImage("")
    path = f"{config.metadata_log_dir}/{CLUSTER_METADATA}-0"
    try:
        _replay(disk, path, image)
    except (OSError, MetadataError, CorruptRecord, *MALFORMED) as error:
        logger.warning("the settings of %s may be out of date, because %s cannot be read: %s", topic, path, error)
    return current_settings(config, image).of_topic(topic, image.config_of(TOPIC, topic))


def _replay(disk: Disk, path: str, image: MetadataImage) -> None:
    """Applies what the directory of the metadata log holds to an empty image, up to the first batch that is not sound."""
    start = 0
    found = snapshot.find(disk, path)
    if found:
        start = found[0].end_offset
        image.apply_all(snapshot.read(disk, f"{path}/{found[0].file_name}").records, start - 1)
    transactions = Transactions()
    for name in disk.list(path):
        if not name.endswith(LOG_SUFFIX) or offset_in(name) < 0:
            continue
        file = disk.open(f"{path}/{name}")
        for _, batch in walk_batches(file, 0, file.size):
            header = read_header(batch)
            if not check_crc(batch, header):
                return
            if header.last_offset < start or header.is_control:
                continue
            for operation in transactions.feed(decode_value(record.value) for record in decode_records(bytes(batch))):
                image.apply_all(operation)
