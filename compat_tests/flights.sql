-- The flights of New York in 2013 with the weather of their hour, and what became of each hour: scripts/flights_pipeline.py runs it.
--
-- /// job
-- [spark]
-- "spark.sql.shuffle.partitions" = 2
-- ///

CREATE STREAM flights (
    number INT, time_hour TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    dep_delay INT, arr_delay INT, distance INT
) FROM TOPIC ${flights} WATERMARK time_hour DELAY OF INTERVAL 20 DAYS WITH (rows_per_batch = '${rows}');

CREATE STREAM weather (time_hour TIMESTAMP, origin STRING, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE)
FROM TOPIC ${weather} WATERMARK time_hour DELAY OF INTERVAL 20 DAYS WITH (rows_per_batch = '${rows}');

-- a table of Spark's own, as any file may be one
CREATE TEMPORARY VIEW planes USING csv OPTIONS (path '${planes}', header 'true', nullValue 'NA', inferSchema 'true');

CREATE TEMPORARY VIEW departures AS
SELECT f.number, f.time_hour, f.origin, f.dest, f.carrier, f.flight, f.dep_delay, f.arr_delay, w.temp, w.wind_speed, w.precip, w.visib,
       p.manufacturer, p.seats
FROM flights f
JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
LEFT JOIN planes p ON f.tailnum = p.tailnum;

CREATE TEMPORARY VIEW hours AS
SELECT origin, window.start AS hour, count(*) AS flights, count(dep_delay) AS departed, sum(dep_delay) AS delay_min,
       max(dep_delay) AS longest_delay_min, sum(seats) AS seats, max(wind_speed) AS wind_speed, max(precip) AS precip,
       min(visib) AS visib
FROM departures GROUP BY origin, window(time_hour, '1 hour');

-- no timestamp = 'time_hour' here: records of 2013 would be gone by the topics' retention as soon as they are written
CREATE SINK joined TO TOPIC ${joined} WITH (key = 'origin', partitions = '3');
CREATE SINK hourly TO TOPIC ${hourly} WITH (key = 'origin', partitions = '3');
CREATE SINK hourly_table TO PARQUET '${table}' WITH (partition_by = 'origin');

INSERT INTO joined SELECT * FROM departures;
INSERT INTO hourly SELECT * FROM hours;
INSERT INTO hourly_table SELECT * FROM hours;
