"""Writes ottla's wire codecs from Kafka's message definitions; run it by scripts/generate_wire.py.

Reading order: compat_tests/reference/definitions.py (JSON -> objects) and messages.py beside it (the definitions in Kafka's jars,
Kafka's classes to ask), which tests read as well; then writer.py (text, local names, fixed layouts), decoding.py and encoding.py
(one function per distinct layout), modules.py (one Python module per API or record), tables.py (wire/api.py, wire/errors.py).

What the text looks like was measured: one function a layout, nested structs in line, is twice as fast as branches on the
version; sharing functions of nested structs between versions saves 2% of the text only. Classes are written out, not
dataclasses: 8 us at import against 320.
"""
