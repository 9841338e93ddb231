"""How Kafka's settings name keys, certificates and logins, for whoever reads them: brokers, commands and the pipeline.

`keystores` reads the stores of `ssl.keystore.*` and `ssl.truststore.*` (PEM, PKCS12, and `jks`), and `jaas` the text of
`sasl.jaas.config`. Nothing here opens a file or a connection by itself.
"""
