"""Writes ottla's wire codecs from Kafka's message definitions; run it by scripts/generate_wire.py.

Reading order: kafka.py (the jars, the definitions in them, Kafka's classes to ask), definitions.py (JSON -> objects),
writer.py (text, local names, fixed layouts), decoding.py and encoding.py (one function per distinct layout), modules.py
(one Python module per API or record), tables.py (wire/api.py, wire/errors.py). KafkaCodec.java is the oracle.

What the text looks like was measured: one function a layout, nested structs in line, is twice as fast as branches on the
version; sharing functions of nested structs between versions saves 2% of the text only. Classes are written out, not
dataclasses: 8 us at import against 320.
"""
