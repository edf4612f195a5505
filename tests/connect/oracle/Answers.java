import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.file.FileStreamSourceTask;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

/** Reads cases from standard input, and writes them with what Kafka Connect's own classes answer. */
public class Answers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonConverter WRITER = json(true);
    private static final JsonConverter READER = json(false);

    public static void main(String[] arguments) throws Exception {
        ObjectNode cases = (ObjectNode) JSON.readTree(System.in);
        for (JsonNode one : (ArrayNode) cases.get("values")) {
            ObjectNode answers = ((ObjectNode) one).putObject("answers");
            SchemaAndValue value = value(one);
            for (JsonNode name : cases.get("converters")) {
                answers.put(name.asText(), answer(name.asText(), value));
            }
        }
        for (JsonNode one : (ArrayNode) cases.get("transforms")) {
            ((ObjectNode) one).set("answer", transform(one, one.get("topic").asText(), one.get("chain")));
        }
        if (cases.has("chains")) { // each value through each of these
            for (JsonNode one : (ArrayNode) cases.get("values")) {
                ObjectNode made = ((ObjectNode) one).putObject("made");
                cases.get("chains").fields().forEachRemaining(chain ->
                    made.set(chain.getKey(), transform(one, "t", chain.getValue())));
            }
        }
        if (cases.has("line")) {
            line((ObjectNode) cases.get("line"));
        }
        System.out.println(JSON.writerWithDefaultPrettyPrinter().writeValueAsString(cases));
    }

    /** What FileStreamSource makes of a line. */
    private static void line(ObjectNode one) throws Exception {
        Path file = Files.createTempFile("lines", ".txt");
        Files.writeString(file, one.get("text").asText() + "\n");
        FileStreamSourceTask task = new FileStreamSourceTask();
        task.initialize(new Context());
        task.start(Map.of("file", file.toString(), "topic", "t"));
        SourceRecord record = task.poll().get(0);
        task.stop();
        Files.delete(file);
        one.put("key", text(record.keySchema(), record.key()));
        one.put("value", text(record.valueSchema(), record.value()));
    }

    /** A task's context without offsets. */
    private static class Context implements SourceTaskContext, OffsetStorageReader {
        public Map<String, String> configs() {
            return Map.of();
        }

        public OffsetStorageReader offsetStorageReader() {
            return this;
        }

        public PluginMetrics pluginMetrics() {
            return null;
        }

        public <T> Map<String, Object> offset(Map<String, T> partition) {
            return null;
        }

        public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
            return Map.of();
        }
    }

    /** With schemas; a null stays a null, or a default takes its place. */
    private static JsonConverter json(boolean defaults) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("converter.type", "value", "replace.null.with.default", defaults), false);
        return made;
    }

    private static SchemaAndValue value(JsonNode one) throws Exception {
        SchemaAndValue read = READER.toConnectData("t", JSON.writeValueAsBytes(one.get("given")));
        JsonNode payload = one.get("given").get("payload");
        if (payload == null || !payload.isTextual() || read.schema() == null) {
            return read;
        }
        if (read.schema().type() == Schema.Type.FLOAT64) { // what is no number of JSON's is given as text
            return new SchemaAndValue(read.schema(), Double.valueOf(payload.asText()));
        }
        return read.schema().type() == Schema.Type.FLOAT32
            ? new SchemaAndValue(read.schema(), Float.valueOf(payload.asText())) : read;
    }

    private static String answer(String name, SchemaAndValue value) throws Exception {
        String[] parts = name.split(" ");
        Converter made = (Converter) Class.forName(parts[0]).getDeclaredConstructor().newInstance();
        Map<String, Object> options = new HashMap<>();
        String how = parts.length == 1 ? "" : parts[1];
        options.put("schemas.enable", !how.equals("schemaless"));
        if (how.equals("numeric")) {
            options.put("decimal.format", "NUMERIC");
        }
        if (how.equals("nulls")) {
            options.put("replace.null.with.default", false);
        }
        options.put("converter.type", "value");
        made.configure(options, false);
        try {
            byte[] bytes = made.fromConnectData("t", value.schema(), value.value());
            return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
        } catch (Exception refused) {
            return "refused: " + refused.getClass().getSimpleName();
        }
    }

    @SuppressWarnings("unchecked")
    private static JsonNode transform(JsonNode one, String topic, JsonNode chain) {
        try {
            SchemaAndValue value = value(one);
            SourceRecord record = new SourceRecord(
                Map.of(), Map.of(), topic, one.has("partition") ? one.get("partition").asInt() : null, null, null,
                value.schema(), value.value(), one.has("timestamp") ? one.get("timestamp").asLong() : null);
            for (JsonNode options : chain) {
                Map<String, Object> given = new HashMap<>(JSON.convertValue(options, Map.class));
                String kind = "org.apache.kafka.connect.transforms." + given.remove("type");
                Transformation<SourceRecord> made =
                    (Transformation<SourceRecord>) Class.forName(kind).getDeclaredConstructor().newInstance();
                made.configure(given);
                record = made.apply(record);
            }
            ObjectNode answer = JSON.createObjectNode();
            answer.put("topic", record.topic());
            answer.put("key", text(record.keySchema(), record.key()));
            answer.put("value", text(record.valueSchema(), record.value()));
            SimpleHeaderConverter converter = new SimpleHeaderConverter();
            for (Header header : record.headers()) {
                byte[] bytes = converter.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value());
                answer.withArray("headers").addArray().add(header.key())
                    .add(bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
            }
            return answer;
        } catch (Exception refused) {
            return JSON.getNodeFactory().textNode("refused: " + refused.getClass().getSimpleName());
        }
    }

    private static String text(Schema schema, Object value) {
        byte[] bytes = WRITER.fromConnectData("t", schema, value);
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
