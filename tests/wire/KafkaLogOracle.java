// Kafka's own record and log classes behind a line protocol, for tests that compare with them (tests/kafka_oracle.py).
// Every line on standard input is a command, every line on standard output its answer; bytes travel as hex.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.AbortedTxn;
import org.apache.kafka.common.message.DescribeProducersResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class KafkaLogOracle {
    static final HexFormat HEX = HexFormat.of();
    static long now = 0;
    static UnifiedLog log;
    static File dir;

    static final Time CLOCK = new Time() {
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { now += ms; }
    };

    static Compression compression(String name, String level) {
        switch (name) {
            case "gzip": return level.equals("-") ? Compression.gzip().build() : Compression.gzip().level(Integer.parseInt(level)).build();
            case "lz4": return level.equals("-") ? Compression.lz4().build() : Compression.lz4().level(Integer.parseInt(level)).build();
            case "zstd": return level.equals("-") ? Compression.zstd().build() : Compression.zstd().level(Integer.parseInt(level)).build();
            case "snappy": return Compression.snappy().build();
            default: return Compression.NONE;
        }
    }

    static byte[] bytes(String hex) { return hex.equals("-") ? null : HEX.parseHex(hex); }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "-";
        byte[] out = new byte[buffer.remaining()];
        buffer.duplicate().get(out);
        return HEX.formatHex(out);
    }

    // build CODEC LEVEL BASE_OFFSET PRODUCER_ID EPOCH SEQUENCE TRANSACTIONAL RECORD...; RECORD = TIMESTAMP,KEY,VALUE[,NAME=VALUE]...
    static String build(String[] words) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), RecordBatch.CURRENT_MAGIC_VALUE,
            compression(words[1], words[2]), TimestampType.CREATE_TIME, Long.parseLong(words[3]), RecordBatch.NO_TIMESTAMP,
            Long.parseLong(words[4]), Short.parseShort(words[5]), Integer.parseInt(words[6]), Boolean.parseBoolean(words[7]),
            RecordBatch.NO_PARTITION_LEADER_EPOCH);
        for (int i = 8; i < words.length; i++) {
            String[] parts = words[i].split(",", -1);
            Header[] headers = new Header[parts.length - 3];
            for (int h = 0; h < headers.length; h++) {
                String[] pair = parts[3 + h].split("=", -1);
                headers[h] = new RecordHeader(new String(bytes(pair[0]), java.nio.charset.StandardCharsets.UTF_8), bytes(pair[1]));
            }
            builder.append(Long.parseLong(parts[0]), bytes(parts[1]), bytes(parts[2]), headers);
        }
        return hex(builder.build().buffer());
    }

    // read BATCH -> TYPE RECORD...; RECORD = OFFSET,TIMESTAMP,KEY,VALUE[,NAME=VALUE]...
    static String read(String batch) {
        StringBuilder out = new StringBuilder();
        for (RecordBatch b : MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(batch))).batches()) {
            b.ensureValid();
            out.append(b.compressionType().name).append('/').append(b.timestampType().name).append('/').append(b.maxTimestamp());
            for (Record r : b) {
                out.append(' ').append(r.offset()).append(',').append(r.timestamp()).append(',').append(hex(r.key())).append(',').append(hex(r.value()));
                for (Header h : r.headers())
                    out.append(',').append(HEX.formatHex(h.key().getBytes(java.nio.charset.StandardCharsets.UTF_8))).append('=')
                        .append(h.value() == null ? "-" : HEX.formatHex(h.value()));
            }
        }
        return out.toString();
    }

    // log NAME=VALUE...: a new, empty log with these topic settings
    static String open(String[] words) throws Exception {
        if (log != null) log.close();
        dir = new File(Files.createTempDirectory("oracle").toFile(), "t-0");
        dir.mkdirs();
        return load(0, 0, true, words, 1);
    }

    static String load(long start, long recoveryPoint, boolean clean, String[] words, int from) throws Exception {
        Properties settings = new Properties();
        for (int i = from; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        KafkaScheduler scheduler = new KafkaScheduler(1);
        log = UnifiedLog.create(dir, new LogConfig(settings), start, recoveryPoint, scheduler, new BrokerTopicStats(), CLOCK, 900000,
            new ProducerStateManagerConfig(86400000, false), 600000, new LogDirFailureChannel(1), clean, Optional.of(Uuid.ONE_UUID));
        return "ok";
    }

    // reopen DIRECTORY LOG_START RECOVERY_POINT CLEAN NAME=VALUE...: the log in a directory named t-0
    static String reopen(String[] words) throws Exception {
        if (log != null) log.close();
        dir = new File(words[1]);
        return load(Long.parseLong(words[2]), Long.parseLong(words[3]), Boolean.parseBoolean(words[4]), words, 5);
    }

    // shut -> DIRECTORY: a clean stop, after which a broker has the active segment's indexes trimmed
    static String shut() throws Exception {
        for (LogSegment segment : log.logSegments()) segment.onBecomeInactiveSegment();
        log.close();
        log = null;
        return dir.getAbsolutePath();
    }

    // state -> START END OFFSET,... ID:LAST_SEQUENCE,...: the last offset of every batch, which is read and checked, and the producers
    static String state() throws Exception {
        StringBuilder batches = new StringBuilder();
        for (LogSegment segment : log.logSegments())
            for (RecordBatch batch : segment.log().batches()) {
                batch.ensureValid();
                batches.append(batch.lastOffset()).append(',');
            }
        StringBuilder producers = new StringBuilder();
        new TreeMap<>(log.activeProducersWithLastSequence()).forEach((id, last) -> producers.append(id).append(':').append(last).append(','));
        return log.logStartOffset() + " " + log.logEndOffset() + " " + batches + " " + producers;
    }

    // time TIMESTAMP -> TIMESTAMP OFFSET | none
    static String time(long timestamp) {
        return log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt()
            .map(found -> found.timestamp + " " + found.offset).orElse("none");
    }

    // start OFFSET -> START: everything below is deleted; retain NOW -> number of segments deleted; truncate OFFSET -> END;
    // roll 0 -> BASE_OFFSET of the new segment
    static String cut(String how, long value) throws Exception {
        log.updateHighWatermark(log.logEndOffset());
        switch (how) {
            case "start":
                log.maybeIncrementLogStartOffset(value, LogStartOffsetIncrementReason.ClientRecordDeletion);
                return "" + log.logStartOffset();
            case "roll":
                return "" + log.roll().baseOffset();
            case "retain":
                now = value;
                return "" + log.deleteOldSegments();
            default:
                log.truncateTo(value);
                return "" + log.logEndOffset();
        }
    }

    // append NOW PRODUCE_VERSION LEADER_EPOCH BATCH -> ok FIRST LAST APPEND_TIME | error NAME [INDEX...]
    static String append(String[] words) {
        now = Long.parseLong(words[1]);
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[4])));
            ProduceRequest.validateRecords(Short.parseShort(words[2]), records);
            LogAppendInfo info = log.appendAsLeader(records, Integer.parseInt(words[3]));
            return "ok " + info.firstOffset() + " " + info.lastOffset() + " " + info.logAppendTime();
        } catch (RecordValidationException e) {
            StringBuilder out = new StringBuilder("error " + Errors.forException(e.invalidException()).name());
            for (ProduceResponse.RecordError error : e.recordErrors()) out.append(' ').append(error.batchIndex);
            return out.toString();
        } catch (Throwable e) {
            return "error " + Errors.forException(e).name();
        }
    }

    // marker NOW TRANSACTION_VERSION LEADER_EPOCH BATCH -> ok OFFSET | error NAME: the end of a transaction, as its coordinator sends it
    static String marker(String[] words) {
        now = Long.parseLong(words[1]);
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(words[4])));
            LogAppendInfo info = log.appendAsLeader(records, Integer.parseInt(words[3]), AppendOrigin.COORDINATOR,
                RequestLocal.noCaching(), VerificationGuard.SENTINEL, Short.parseShort(words[2]));
            return "ok " + info.firstOffset();
        } catch (Throwable e) {
            return "error " + Errors.forException(e).name();
        }
    }

    // stable HIGH_WATERMARK -> the last stable offset then
    static String stable(long highWatermark) throws Exception {
        log.updateHighWatermark(highWatermark);
        return "" + log.lastStableOffset();
    }

    // aborted FROM UPTO -> ID:FIRST:LAST:STABLE,...
    static String aborted(long from, long upto) {
        StringBuilder out = new StringBuilder();
        for (AbortedTxn txn : log.collectAbortedTransactions(from, upto))
            out.append(txn.producerId()).append(':').append(txn.firstOffset()).append(':').append(txn.lastOffset()).append(':')
                .append(txn.lastStableOffset()).append(',');
        return out.toString();
    }

    // committed FROM BYTES -> SIZE ID:FIRST,...: a read of committed records
    static String committed(long from, int bytes) throws Exception {
        FetchDataInfo info = log.read(from, bytes, FetchIsolation.TXN_COMMITTED, true);
        StringBuilder out = new StringBuilder(info.records.sizeInBytes() + " ");
        info.abortedTransactions.get().forEach(txn -> out.append(txn.producerId()).append(':').append(txn.firstOffset()).append(','));
        return out.toString();
    }

    // producers -> ID:EPOCH:SEQUENCE:TIMESTAMP:COORDINATOR:TXN,...: in the order in which a broker tells them
    static String producers() {
        StringBuilder out = new StringBuilder();
        for (DescribeProducersResponseData.ProducerState state : log.activeProducers())
            out.append(state.producerId()).append(':').append(state.producerEpoch()).append(':').append(state.lastSequence()).append(':')
                .append(state.lastTimestamp()).append(':').append(state.coordinatorEpoch()).append(':').append(state.currentTxnStartOffset()).append(',');
        return out.toString();
    }

    // files -> NAME=HEX... of the partition's directory, without the indexes
    static String files() throws Exception {
        log.flush(true);
        log.takeProducerSnapshot();
        Map<String, String> found = new TreeMap<>();
        for (File file : dir.listFiles())
            if (!file.getName().endsWith("index")) found.put(file.getName(), HEX.formatHex(Files.readAllBytes(file.toPath())));
        StringBuilder out = new StringBuilder();
        found.forEach((name, content) -> out.append(out.length() == 0 ? "" : " ").append(name).append('=').append(content));
        return out.toString();
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // whoever logs must not get between command and answer
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                switch (words[0]) {
                    case "build": answer = build(words); break;
                    case "read": answer = read(words[1]); break;
                    case "log": answer = open(words); break;
                    case "append": answer = append(words); break;
                    case "marker": answer = marker(words); break;
                    case "stable": answer = stable(Long.parseLong(words[1])); break;
                    case "aborted": answer = aborted(Long.parseLong(words[1]), Long.parseLong(words[2])); break;
                    case "committed": answer = committed(Long.parseLong(words[1]), Integer.parseInt(words[2])); break;
                    case "producers": answer = producers(); break;
                    case "late": answer = "" + log.hasLateTransaction(Long.parseLong(words[1])); break;
                    case "expire": log.removeExpiredProducers(Long.parseLong(words[1])); answer = "ok"; break;
                    case "files": answer = files(); break;
                    case "reopen": answer = reopen(words); break;
                    case "shut": answer = shut(); break;
                    case "state": answer = state(); break;
                    case "time": answer = time(Long.parseLong(words[1])); break;
                    case "start": case "retain": case "truncate": case "roll": answer = cut(words[0], Long.parseLong(words[1])); break;
                    default: throw new IllegalArgumentException(line);
                }
            } catch (Throwable e) {
                answer = "exception " + e;
            }
            answers.println(answer);
            answers.flush();
        }
        System.exit(0);
    }
}
