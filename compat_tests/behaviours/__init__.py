"""The behaviour of six clients under faults of the test kit: scenarios, clients, and the table that docs/client-behaviours.md
shows.

    drivers    drive_confluent.py, drive_kafka_python.py here; compat_tests/go/behave*.go, java/Behaviours.java, node/behave.mjs
    driver.py  the other end of a driver's pipe, and clients.py, which starts each
    cell.py    one scenario with one client: a broker of its own, its faults, and what was seen
    produce.py, consume.py, group.py, transact.py   what the client is asked to do, and how what it did is put into words
    scenarios.py   the scenarios, as data
    suite.py   runs them

A driver reads a line of JSON for each call, and runs each call by itself, so that one that hangs does not keep the next waiting.

    {"id": 1, "call": "producer", "of": "p", "bootstrap": ..., "settings": {...}}   ->   {"id": 1, "result": null}
                                                                  or {"id": 1, "error": "what the client calls it", "code": 6}

    call      arguments                        result
    version                                    the library's version
    producer  of, bootstrap, settings          null; one with a transactional_id has done what comes before its first transaction
    send      of, topic, values                for each value, sent together to partition 0: {"offset"} or {"error", "code"}
    begin, commit, abort   of                  null
    consumer  of, bootstrap, topic, settings   null; it reads until it is closed and says so in lines of its own:
                                               {"of", "event": "record", "offset", "value"}, "assigned" and "revoked" with
                                               "partitions", "committed", "error" with "error", "code" and
                                               "while" (poll or commit)
    close     of                               null

Settings are absent where the client decides:

    producer  idempotent, transactional_id, delivery_ms (how long it may take in all), request_ms (how long for an answer)
    consumer  group, client_id, instance_id, session_ms, heartbeat_ms, request_ms, poll_ms (for how long it need not poll),
              check_crcs, reset (what to do without an offset), commit ("each": after each record; else as the client does);
              without a group it reads partition 0 from offset 0
"""
