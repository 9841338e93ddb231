-- The streaming join whose lag scripts/bench/spark.py measures: each order with its payment, some time later.
--
-- /// job
-- [spark]
-- "spark.sql.shuffle.partitions" = 2
-- ///
CREATE STREAM orders (id BIGINT, sent TIMESTAMP) FROM TOPIC ${orders} WATERMARK sent DELAY OF INTERVAL 2 SECONDS WITH (from = 'latest');
CREATE STREAM payments (id BIGINT, paid TIMESTAMP, sent_ms BIGINT)
FROM TOPIC ${payments} WATERMARK paid DELAY OF INTERVAL 2 SECONDS WITH (from = 'latest');

CREATE SINK paid TO TOPIC ${paid} WITH (key = 'id');
INSERT INTO paid
SELECT o.id, p.sent_ms FROM orders o JOIN payments p
ON o.id = p.id AND p.paid BETWEEN o.sent AND o.sent + INTERVAL 10 SECONDS;
