import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.test.TestRecord;

/** Reads cases from standard input, one a line, and writes what Kafka Streams' own test driver answers to each. */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Answers {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Numbers as text, strings as they are, windows as their key and their start. */
    public static class Text implements Serde<Object>, Serializer<Object>, Deserializer<Object> {
        public Serializer<Object> serializer() {
            return this;
        }

        public Deserializer<Object> deserializer() {
            return this;
        }

        public byte[] serialize(String topic, Object data) {
            if (data == null) {
                return null;
            }
            if (data instanceof Windowed) {
                Windowed<Object> window = (Windowed<Object>) data;
                byte[] key = serialize(topic, window.key());
                ByteBuffer made = ByteBuffer.allocate(key.length + 16).put(key);
                if (window.window() instanceof SessionWindow) {
                    made.putLong(window.window().end());
                }
                return Arrays.copyOf(made.putLong(window.window().start()).array(), made.position());
            }
            return data.toString().getBytes(StandardCharsets.UTF_8);
        }

        public Object deserialize(String topic, byte[] data) {
            if (data == null) {
                return null;
            }
            String text = new String(data, StandardCharsets.UTF_8);
            if (text.equals("!")) {
                throw new IllegalArgumentException("a bad value");
            }
            return text.matches("-?[0-9]+") ? (Object) Long.valueOf(text) : text;
        }

        public void configure(Map<String, ?> settings, boolean isKey) {}

        public void close() {}
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(new Answers().answer(JSON.readTree(line))));
        }
    }

    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<Integer, Object> made = new HashMap<>();
    private static final Text TEXT = new Text();

    private ObjectNode answer(JsonNode one) {
        for (JsonNode step : one.get("steps")) {
            build(step);
        }
        Properties properties = new Properties();
        properties.put("application.id", "app");
        properties.put("bootstrap.servers", "none:1");
        properties.put("default.key.serde", Text.class);
        properties.put("default.value.serde", Text.class);
        properties.put("statestore.cache.max.bytes", "0");
        properties.put(
                "dsl.store.suppliers.class",
                "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
        properties.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        properties.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        if (one.has("letters")) {
            String errors = "org.apache.kafka.streams.errors.";
            properties.put("deserialization.exception.handler", errors + "LogAndContinueExceptionHandler");
            properties.put("processing.exception.handler", errors + "LogAndContinueProcessingExceptionHandler");
            properties.put("errors.dead.letter.queue.topic.name", one.get("letters").asText());
        }
        ObjectNode answers = JSON.createObjectNode();
        ObjectNode topics = answers.putObject("topics");
        ObjectNode changelogs = answers.putObject("changelogs");
        try (TopologyTestDriver driver =
                new TopologyTestDriver(builder.build(), properties, Instant.ofEpochMilli(one.path("clock").asLong()))) {
            Map<String, TestInputTopic<Object, Object>> inputs = new HashMap<>();
            for (JsonNode record : one.get("records")) {
                if (record.get(0).isNull()) {
                    driver.advanceWallClockTime(millis(record.get(3)));
                    continue;
                }
                String topic = record.get(0).asText();
                inputs.computeIfAbsent(topic, name -> driver.createInputTopic(name, TEXT, TEXT))
                        .pipeInput(new TestRecord<>(text(record.get(1)), number(record.get(2)),
                                headers(record.path(4)), record.get(3).asLong()));
            }
            for (String topic : driver.producedTopicNames()) {
                var output = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                if (topic.contains("-SUPPRESS-")) {
                    continue;
                }
                if (topic.endsWith("-changelog")) {
                    Map<String, ArrayNode> newest = new TreeMap<>();
                    for (var record : output.readRecordsToList()) {
                        newest.put(shown(record.key()), shown(record.key(), record.value(), record.timestamp()));
                    }
                    ArrayNode rows = changelogs.putArray(topic);
                    newest.values().stream().filter(row -> !row.get(1).isNull()).forEach(rows::add);
                } else if (!topic.endsWith("-repartition")) {
                    ArrayNode rows = topics.putArray(topic);
                    for (var record : output.readRecordsToList()) {
                        ArrayNode row = shown(record.key(), record.value(), record.timestamp());
                        for (String name : List.of("topic", "partition", "offset")) {
                            var header = record.headers().lastHeader("__streams.errors." + name);
                            if (header != null) {
                                row.add(shown(header.value()));
                            }
                        }
                        if (one.has("clock")) {
                            ArrayNode pairs = row.addArray();
                            record.headers().forEach(header -> pairs.addArray().add(header.key()).add(shown(header.value())));
                        }
                        rows.add(row);
                    }
                }
            }
        }
        return answers;
    }

    private static Headers headers(JsonNode pairs) {
        RecordHeaders made = new RecordHeaders();
        pairs.forEach(pair -> made.add(pair.get(0).asText(),
                pair.get(1).isNull() ? null : pair.get(1).asText().getBytes(StandardCharsets.ISO_8859_1)));
        return made;
    }

    /** The value is the time: doubled, or too early where it is a multiple of 7, or the latest time without one. */
    public static class ByValue implements TimestampExtractor {
        public long extract(ConsumerRecord<Object, Object> record, long partitionTime) {
            if (record.value() == null) {
                return partitionTime;
            }
            long value = (Long) record.value();
            return value % 7 == 0 ? -1 : record.timestamp() / 2 + value;
        }
    }

    private static Consumed<Object, Object> consumed(JsonNode step) {
        Consumed<Object, Object> consumed = Consumed.with(TEXT, TEXT);
        return step.has("extractor") ? consumed.withTimestampExtractor(new ByValue()) : consumed;
    }

    private static ArrayNode shown(byte[] key, byte[] value, long timestamp) {
        return JSON.createArrayNode().add(shown(key)).add(shown(value)).add(timestamp);
    }

    private static String shown(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.ISO_8859_1);
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static Object number(JsonNode node) {
        return node.isNull() ? null : node.isTextual() ? (Object) node.asText() : (Object) node.asLong();
    }

    private void build(JsonNode step) {
        int id = step.path("id").asInt(-1);
        String name = step.path("name").asText();
        long n = step.path("n").asLong();
        long is = step.path("is").asLong();
        KStream<Object, Object> stream = step.has("of") && made.get(step.get("of").asInt()) instanceof KStream
                ? (KStream<Object, Object>) made.get(step.get("of").asInt()) : null;
        switch (step.get("op").asText()) {
            case "stream" -> made.put(id, builder.stream(
                    step.has("topics") ? topics(step.get("topics")) : List.of(name), consumed(step)));
            case "table" -> made.put(id, builder.table(step.get("topic").asText(), consumed(step), kept(name)));
            case "global_table" -> made.put(id, builder.globalTable(step.get("topic").asText(), consumed(step), kept(name)));
            case "global_join" -> made.put(id, stream.join((GlobalKTable<Object, Object>) made.get(step.get("table").asInt()),
                    (key, value) -> step.has("n") ? chosen(value, n) : key, Answers::joined));
            case "global_left_join" -> made.put(id, stream.leftJoin(
                    (GlobalKTable<Object, Object>) made.get(step.get("table").asInt()),
                    (key, value) -> step.has("n") ? chosen(value, n) : key, Answers::joined));
            case "filter" -> made.put(id, stream.filter((key, value) -> fits(value, n, is)));
            case "filter_not" -> made.put(id, stream.filterNot((key, value) -> fits(value, n, is)));
            case "map_values" -> made.put(id, stream.mapValues(value -> fits(value, n, is) ? null : plus(value, n)));
            case "map" -> made.put(id, stream.map((key, value) -> KeyValue.pair(chosen(value, n), plus(value, 1))));
            case "picky" -> made.put(id, stream.mapValues(value -> picky(value, n, is)));
            case "picky_filter" -> made.put(id, stream.filter((key, value) -> picky(value, n, is) != null));
            case "picky_map" -> made.put(id, stream.map((key, value) -> KeyValue.pair(chosen(picky(value, n, is), 3), value)));
            case "picky_fold" -> made.put(id, stream.groupByKey(Grouped.with(TEXT, TEXT)).aggregate(() -> (Object) 100L,
                    (key, value, sum) -> (Object) ((Long) sum + (Long) picky(value, n, is)), kept(name)));
            case "picky_windows" -> made.put(id, stream.groupByKey(Grouped.with(TEXT, TEXT))
                    .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(10)))
                    .reduce((sum, value) -> {
                        Object more = picky(value, n, is);
                        return (Object) ((Long) sum + (more == null ? 0 : (Long) more));
                    }, kept(name)));
            case "flat_map" -> made.put(id, stream.flatMap((key, value) -> copies(value, n)));
            case "flat_map_values" -> made.put(id, stream.flatMapValues(
                    value -> copies(value, n).stream().map(one -> one.value).toList()));
            case "peek" -> made.put(id, stream.peek((key, value) -> { }));
            case "process_values" -> made.put(id, stream.processValues(() -> new Tally(name), name));
            case "select_key" -> made.put(id, stream.selectKey((key, value) -> chosen(value, n)));
            case "branch" -> branch(step, stream, n);
            case "merge" -> made.put(id, stream.merge((KStream) made.get(step.get("with").asInt())));
            case "repartition" -> made.put(id, stream.repartition(Repartitioned.with((Serde) TEXT, (Serde) TEXT).withName(name)));
            case "fold" -> made.put(id, fold(step, stream, name));
            case "suppress" -> made.put(id, ((KTable) made.get(step.get("of").asInt())).suppress(n == 0
                    ? (Suppressed) Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())
                    : Suppressed.untilTimeLimit(Duration.ofMillis(n), step.has("most")
                            ? Suppressed.BufferConfig.maxRecords(step.get("most").asLong()).emitEarlyWhenFull()
                            : (Suppressed.BufferConfig) Suppressed.BufferConfig.unbounded())));
            case "to_table" -> made.put(id, stream.toTable(kept(name)));
            case "table_map" -> made.put(id, ((KTable<Object, Object>) made.get(step.get("of").asInt()))
                    .mapValues(value -> fits(value, n, is) ? null : plus(value, n)));
            case "table_filter" -> made.put(id, ((KTable<Object, Object>) made.get(step.get("of").asInt()))
                    .filter((key, value) -> fits(value, n, is)));
            case "table_filter_not" -> made.put(id, ((KTable<Object, Object>) made.get(step.get("of").asInt()))
                    .filterNot((key, value) -> fits(value, n, is)));
            case "table_fold" -> made.put(id, tableFold(step, (KTable) made.get(step.get("of").asInt()), name, n));
            case "table_join" -> made.put(id, tablesJoined(step, (KTable) made.get(step.get("of").asInt()),
                    (KTable) made.get(step.get("with").asInt())));
            case "foreign_join" -> made.put(id, joinedByValue(step, (KTable) made.get(step.get("of").asInt()),
                    (KTable) made.get(step.get("with").asInt()), n));
            case "to_stream" -> made.put(id, ((KTable) made.get(step.get("of").asInt())).toStream());
            case "join" -> made.put(id, stream.join((KTable<Object, Object>) made.get(step.get("table").asInt()),
                    Answers::joined, Joined.with(TEXT, TEXT, null)));
            case "left_join" -> made.put(id, stream.leftJoin((KTable<Object, Object>) made.get(step.get("table").asInt()),
                    Answers::joined, Joined.with(TEXT, TEXT, null)));
            case "cogroup" -> made.put(id, together(step, name));
            case "meet" -> made.put(id, met(step, stream, (KStream) made.get(step.get("with").asInt())));
            case "named" -> made.put(id, named(step, stream, name, n));
            case "versioned" -> made.put(id, builder.table(step.get("topic").asText(), consumed(step),
                    Materialized.<Object, Object>as(Stores.persistentVersionedKeyValueStore(name, Duration.ofMillis(n)))
                            .withKeySerde((Serde) TEXT).withValueSerde((Serde) TEXT)));
            case "versioned_store" -> builder.addStateStore(Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore(name, Duration.ofMillis(n)), TEXT, TEXT));
            case "versions" -> made.put(id, stream.process(() -> new Versions(name, n), name));
            case "store" -> builder.addStateStore(
                    Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), TEXT, TEXT));
            case "process" -> made.put(id, stream.process(
                    () -> new Own(step.get("kind").asText(), name, n), name));
            case "to" -> {
                if (step.has("n")) {
                    stream.to((key, value, context) -> name + "-" + (key == null ? 0 : length(key) % n),
                            Produced.with(TEXT, TEXT));
                } else {
                    stream.to(name, Produced.with(TEXT, TEXT));
                }
            }
            default -> throw new IllegalArgumentException(step.toString());
        }
    }

    private Materialized kept(String store) {
        return Materialized.as(store).withKeySerde((Serde) TEXT).withValueSerde((Serde) TEXT).withCachingDisabled();
    }

    private void branch(JsonNode step, KStream<Object, Object> stream, long n) {
        BranchedKStream<Object, Object> split = stream.split();
        JsonNode ids = step.get("ids");
        for (int at = 0; at < ids.size(); at++) {
            int id = ids.get(at).asInt();
            long is = at;
            split = split.branch((key, value) -> fits(value, n, is), Branched.withConsumer(one -> made.put(id, one)));
        }
        split.noDefaultBranch();
    }

    private KTable together(JsonNode step, String store) {
        CogroupedKStream<Object, Object> groups = null;
        long number = 0;
        for (JsonNode one : step.get("many")) {
            long more = number;
            Aggregator<Object, Object, Object> adding = (key, value, sum) -> added(sum, plus(value, more));
            KGroupedStream<Object, Object> group = ((KStream<Object, Object>) made.get(one.asInt()))
                    .groupByKey(Grouped.with(store + "-" + number, (Serde) TEXT, (Serde) TEXT));
            groups = groups == null ? group.cogroup(adding) : groups.cogroup(group, adding);
            number++;
        }
        if (step.has("windows")) {
            JsonNode given = step.get("windows");
            return groups.windowedBy(TimeWindows.ofSizeAndGrace(millis(given.get(0)), millis(given.get(2)))
                    .advanceBy(millis(given.get(1)))).aggregate(() -> (Object) 100L, kept(store)
                            .withStoreType(Materialized.StoreType.ROCKS_DB).withRetention(Duration.ofDays(1)));
        }
        if (step.has("session")) {
            return groups.windowedBy(SessionWindows.ofInactivityGapAndGrace(millis(step.get("session").get(0)),
                    millis(step.get("session").get(1))))
                    .aggregate(() -> (Object) 100L, Answers::merged, kept(store));
        }
        if (step.has("sliding")) {
            return groups.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(millis(step.get("sliding").get(0)),
                    millis(step.get("sliding").get(1)))).aggregate(() -> (Object) 100L, kept(store));
        }
        return groups.aggregate(() -> (Object) 100L, kept(store));
    }

    private KTable fold(JsonNode step, KStream<Object, Object> stream, String store) {
        Grouped grouped = Grouped.with(TEXT, TEXT);
        long by = step.path("by").asLong();
        KGroupedStream<Object, Object> groups =
                by == 0 ? stream.groupByKey(grouped) : stream.groupBy((key, value) -> chosen(value, by), grouped);
        Materialized counted = Materialized.as(store).withKeySerde((Serde) TEXT).withCachingDisabled();
        Materialized kept = kept(store);
        String kind = step.get("kind").asText();
        if (step.has("windows")) {
            JsonNode given = step.get("windows");
            TimeWindows windows = TimeWindows
                    .ofSizeAndGrace(Duration.ofMillis(given.get(0).asLong()), Duration.ofMillis(given.get(2).asLong()))
                    .advanceBy(Duration.ofMillis(given.get(1).asLong()));
            TimeWindowedKStream<Object, Object> windowed = groups.windowedBy(windows);
            if (step.has("close")) {
                windowed = windowed.emitStrategy(EmitStrategy.onWindowClose());
                counted = counted.withStoreType(Materialized.StoreType.ROCKS_DB).withRetention(Duration.ofDays(1));
            }
            return switch (kind) {
                case "count" -> windowed.count(counted);
                case "reduce" -> windowed.reduce(Answers::added, kept(store));
                default -> windowed.aggregate(() -> (Object) 100L, (key, value, sum) -> added(sum, value), kept(store));
            };
        }
        if (step.has("session")) {
            var windowed = groups.windowedBy(SessionWindows.ofInactivityGapAndGrace(
                    millis(step.get("session").get(0)), millis(step.get("session").get(1))));
            if (step.has("close")) {
                windowed = windowed.emitStrategy(EmitStrategy.onWindowClose());
                counted = counted.withStoreType(Materialized.StoreType.ROCKS_DB).withRetention(Duration.ofDays(1));
                kept = kept.withStoreType(Materialized.StoreType.ROCKS_DB).withRetention(Duration.ofDays(1));
            }
            return switch (kind) {
                case "count" -> windowed.count(counted);
                case "reduce" -> windowed.reduce(Answers::added, kept);
                default -> windowed.aggregate(() -> (Object) 100L, (key, value, sum) -> added(sum, value),
                        Answers::merged, kept);
            };
        }
        if (step.has("sliding")) {
            var windowed = groups.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(
                    millis(step.get("sliding").get(0)), millis(step.get("sliding").get(1))));
            if (step.has("close")) {
                windowed = windowed.emitStrategy(EmitStrategy.onWindowClose());
                counted = counted.withStoreType(Materialized.StoreType.ROCKS_DB).withRetention(Duration.ofDays(1));
                kept = kept.withStoreType(Materialized.StoreType.ROCKS_DB).withRetention(Duration.ofDays(1));
            }
            return switch (kind) {
                case "count" -> windowed.count(counted);
                case "reduce" -> windowed.reduce(Answers::added, kept);
                default -> windowed.aggregate(() -> (Object) 100L, (key, value, sum) -> added(sum, value), kept);
            };
        }
        return switch (kind) {
            case "count" -> groups.count(counted);
            case "reduce" -> groups.reduce(Answers::added, kept(store));
            default -> groups.aggregate(() -> (Object) 100L, (key, value, sum) -> added(sum, value), kept(store));
        };
    }

    /** A key of one's own, and a count of it: only some of the names are given, the others have numbers. */
    private KTable named(JsonNode step, KStream<Object, Object> stream, String name, long n) {
        KStream<Object, Object> chosen = stream.selectKey((key, value) -> chosen(value, n), Named.as(name + "-key"))
                .filter((key, value) -> true, Named.as(name + "-filter"));
        Grouped grouped = step.path("is").asLong() == 0 ? Grouped.with(TEXT, TEXT) : Grouped.with(name, TEXT, TEXT);
        return chosen.groupByKey(grouped).count(Named.as(name + "-count"));
    }

    private KTable tablesJoined(JsonNode step, KTable<Object, Object> left, KTable<Object, Object> right) {
        return switch (step.get("kind").asText()) {
            case "join" -> left.join(right, Answers::mixedOrNull);
            case "left_join" -> left.leftJoin(right, Answers::mixedOrNull);
            default -> left.outerJoin(right, Answers::mixedOrNull);
        };
    }

    private KTable joinedByValue(JsonNode step, KTable<Object, Object> left, KTable<Object, Object> right, long n) {
        Function<Object, Object> key = value -> (Long) value % 11 == 0 ? null : chosen(value, n);
        ValueJoiner<Object, Object, Object> joiner = Answers::mixedOrNull;
        Materialized kept = step.has("name") ? kept(step.get("name").asText())
                : Materialized.with((Serde) TEXT, (Serde) TEXT).withCachingDisabled();
        return step.get("kind").asText().equals("join")
                ? left.join(right, key, joiner, kept) : left.leftJoin(right, key, joiner, kept);
    }

    private static Object mixedOrNull(Object left, Object right) {
        Object mixed = mixed(left, right);
        return (Long) mixed % 7 == 0 ? null : mixed;
    }

    private KTable tableFold(JsonNode step, KTable<Object, Object> table, String store, long n) {
        KGroupedTable<Object, Object> groups = table.groupBy(
                (key, value) -> KeyValue.pair((Long) value % 11 == 0 ? null : chosen(value, n), plus(value, 1)),
                Grouped.with(TEXT, TEXT));
        Materialized counted = Materialized.as(store).withKeySerde((Serde) TEXT).withCachingDisabled();
        return switch (step.get("kind").asText()) {
            case "count" -> groups.count(counted);
            case "reduce" -> groups.reduce(Answers::added, Answers::taken, kept(store));
            default -> groups.aggregate(() -> (Object) 100L, (key, value, sum) -> added(sum, value),
                    (key, value, sum) -> taken(sum, value), kept(store));
        };
    }

    /** A difference; a multiple of 4 deletes it. */
    private static Object taken(Object sum, Object value) {
        return (Long) value % 4 == 0 ? null : (Object) ((Long) sum - (Long) value);
    }

    private static List<String> topics(JsonNode names) {
        List<String> found = new ArrayList<>();
        names.forEach(one -> found.add(one.asText()));
        return found;
    }

    private static long length(Object key) {
        return (key instanceof Windowed ? ((Windowed<Object>) key).key() : key).toString().length();
    }

    /** Sums the values of a key, and forwards each sum twice. */
    private static class Tally extends ContextualFixedKeyProcessor<Object, Object, Object> {
        private final String name;

        Tally(String name) {
            this.name = name;
        }

        public void process(FixedKeyRecord<Object, Object> record) {
            KeyValueStore<Object, Object> store = context().getStateStore(name);
            String key = record.key() == null ? "none" : record.key().toString();
            Object before = store.get(key);
            long sum = (before == null ? 0 : (Long) before) + (record.value() == null ? 1 : (Long) record.value());
            store.put(key, sum);
            context().forward(record.withValue((Object) sum));
            context().forward(record.withValue((Object) (sum + 1)));
        }
    }

    /** Puts each record as a version of its key, and forwards what is found then. */
    private static class Versions implements Processor<Object, Object, Object, Object> {
        private final String name;
        private final long before;
        private ProcessorContext<Object, Object> context;
        private VersionedKeyValueStore<Object, Object> store;

        Versions(String name, long before) {
            this.name = name;
            this.before = before;
        }

        public void init(ProcessorContext<Object, Object> context) {
            this.context = context;
            store = context.getStateStore(name);
        }

        public void process(Record<Object, Object> record) {
            Object key = record.key() == null ? "none" : record.key();
            long put = store.put(key, record.value(), record.timestamp());
            context.forward(record.withValue((Object) (put == VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT ? -2 : put)));
            context.forward(record.withValue(shown(store.get(key))));
            context.forward(record.withValue(shown(store.get(key, record.timestamp() - before))));
            if (record.value() != null && (Long) record.value() % 5 == 0) {
                context.forward(record.withValue(shown(store.delete(key, record.timestamp() + 1))));
            }
        }

        private static Object shown(VersionedRecord<Object> found) {
            return found == null ? (Object) (-3L) : (Object) ((Long) found.value() * 1_000 + found.timestamp());
        }
    }

    private static Duration millis(JsonNode number) {
        return Duration.ofMillis(number.asLong());
    }

    private KStream met(JsonNode step, KStream<Object, Object> left, KStream<Object, Object> right) {
        JsonNode given = step.get("windows");
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, millis(given.get(2)))
                .before(millis(given.get(0))).after(millis(given.get(1)));
        StreamJoined<Object, Object, Object> joined = StreamJoined.with(TEXT, TEXT, TEXT);
        if (step.has("name")) {
            joined = joined.withStoreName(step.get("name").asText());
        }
        return switch (step.get("kind").asText()) {
            case "join" -> left.join(right, Answers::mixed, windows, joined);
            case "left_join" -> left.leftJoin(right, Answers::mixed, windows, joined);
            default -> left.outerJoin(right, Answers::mixed, windows, joined);
        };
    }

    private static Object mixed(Object left, Object right) {
        long one = left == null ? -1 : (Long) left;
        long other = right == null ? -1 : (Long) right;
        return Math.floorMod(one * 1000 + other, 1_000_003L);
    }

    private static boolean fits(Object value, long n, long is) {
        return value != null && Math.floorMod((Long) value, n) == is;
    }

    private static Object picky(Object value, long n, long is) {
        if (fits(value, n, is)) {
            throw new ArithmeticException(value + " is refused");
        }
        return value;
    }

    private static Object plus(Object value, long n) {
        return value == null ? null : (Object) ((Long) value + n);
    }

    private static Object chosen(Object value, long n) {
        return value == null ? null : "k" + Math.floorMod((Long) value, n);
    }

    private static List<KeyValue<Object, Object>> copies(Object value, long n) {
        List<KeyValue<Object, Object>> found = new ArrayList<>();
        for (long at = 0; value != null && at < Math.floorMod((Long) value, n); at++) {
            found.add(KeyValue.pair("k" + at, (Long) value + at));
        }
        return found;
    }

    /** A sum; a multiple of 5 deletes it. Windows get values of null, too. */
    private static Object added(Object sum, Object value) {
        long before = sum == null ? 0 : (Long) sum;
        if (value == null) {
            return before + 7;
        }
        return (Long) value % 5 == 0 ? null : (Object) (before + (Long) value);
    }

    private static Object merged(Object key, Object one, Object other) {
        return (one == null ? 0 : (Long) one) + (other == null ? 0 : (Long) other);
    }

    private static Object joined(Object value, Object partner) {
        return (Long) value * 1000 + (partner == null ? -1 : (Long) partner);
    }

    /** A processor with one store. */
    private static class Own implements Processor<Object, Object, Object, Object> {
        private final String kind;
        private final String name;
        private final long every;
        private ProcessorContext<Object, Object> context;
        private KeyValueStore<Object, Object> store;
        private Cancellable scheduled;
        private int calls;

        Own(String kind, String name, long every) {
            this.kind = kind;
            this.name = name;
            this.every = every;
        }

        public void init(ProcessorContext<Object, Object> context) {
            this.context = context;
            store = context.getStateStore(name);
            if (kind.equals("tick")) {
                context.schedule(Duration.ofMillis(every), PunctuationType.STREAM_TIME, now ->
                        context.forward(new Record<>("tick", now * 1000 + number("n"), now)));
            }
            if (kind.equals("clock")) {
                scheduled = context.schedule(Duration.ofMillis(every), PunctuationType.WALL_CLOCK_TIME, now -> {
                    context.forward(new Record<>("clock", now * 1000 + number("n"), now));
                    store.put("n", number("n") + 1);
                    if (++calls == 3) {
                        scheduled.cancel();
                    }
                });
            }
        }

        private long number(Object key) {
            Object found = store.get(key);
            return found == null ? 0 : (Long) found;
        }

        public void process(Record<Object, Object> record) {
            Object key = record.key();
            long value = record.value() == null ? 1 : (Long) record.value();
            if (key == null) {
                context.forward(record.withValue((Object) value));
                return;
            }
            switch (kind) {
                case "tally" -> {
                    long before = number(key);
                    context.forward(record.withValue((Object) before));
                    store.put(key, before + value);
                    context.forward(record.withValue((Object) (before + value)));
                }
                case "look" -> context.forward(record.withValue((Object) number(key)));
                case "delete" -> context.forward(record.withValue(store.delete(key)));
                case "first" -> {
                    if (store.putIfAbsent(key, value) == null) {
                        context.forward(record);
                    }
                }
                default -> store.put("n", number("n") + 1);
            }
        }
    }
}
