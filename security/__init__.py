"""The names that Kafka's settings give to keys, certificates and logins, for whoever reads them: brokers, commands and the
pipeline.

`keystores` reads the stores of `ssl.keystore.*` and `ssl.truststore.*` (PEM, PKCS12, and `jks`), `key_derivation` bounds what it
costs to open one, and `jaas` reads the text of `sasl.jaas.config`. `password_file` has the users of a server of ours, and
`addresses` says which clients are one source.
Nothing here opens a connection by itself, and a file only `password_file.read_users`.
"""
