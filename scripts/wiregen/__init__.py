"""Writes ottla's wire codecs from Kafka's message definitions; run it by scripts/generate_wire.py.

Reading order: definitions.py (JSON -> objects), writer.py (text, local names, fixed layouts), decoding.py and
encoding.py (one function per distinct layout), modules.py (one Python module per API or record), tables.py
(wire/api.py, wire/errors.py), artifacts.py (Maven: where the definitions come from).
"""
