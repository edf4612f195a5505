import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.serde.avro.NonRecordContainer;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/** Reads cases from standard input, and writes them with the schema and the bytes of Avro that AvroData makes. */
public class AvroAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode cases = (ArrayNode) JSON.readTree(System.in);
        JsonConverter reader = new JsonConverter();
        reader.configure(Map.of("converter.type", "value", "replace.null.with.default", false), false);
        for (JsonNode one : cases) {
            SchemaAndValue value = reader.toConnectData("t", JSON.writeValueAsBytes(one.get("given")));
            Map<String, Object> options = new HashMap<>(JSON.convertValue(one.get("options"), Map.class));
            ((ObjectNode) one).set("answer", answer(options, value, one.get("given").get("payload")));
        }
        System.out.println(JSON.writeValueAsString(cases));
    }

    private static JsonNode answer(Map<String, Object> options, SchemaAndValue given, JsonNode payload) {
        try {
            AvroData data = new AvroData(new AvroDataConfig(options));
            Object value = given.value();
            Schema schema = given.schema();
            if (schema != null && payload.isTextual()) { // what is no number of JSON's is given as text
                String text = payload.asText();
                value = schema.type() == Schema.Type.FLOAT64 ? Double.valueOf(text)
                    : schema.type() == Schema.Type.FLOAT32 ? Float.valueOf(text) : value;
            }
            org.apache.avro.Schema avro = data.fromConnectSchema(schema);
            Object made = data.fromConnectData(schema, value);
            ObjectNode answer = JSON.createObjectNode();
            answer.put("schema", avro.toString());
            if (made instanceof NonRecordContainer container) {
                made = container.getValue();
            }
            if (made != null) {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(bytes, null);
                if (avro.getType() == org.apache.avro.Schema.Type.BYTES) { // as Confluent's serializer does
                    bytes.write(((ByteBuffer) made).array());
                } else {
                    new GenericDatumWriter<Object>(avro).write(made, encoder);
                }
                encoder.flush();
                answer.put("bytes", Base64.getEncoder().encodeToString(bytes.toByteArray()));
            }
            return answer;
        } catch (Exception refused) {
            return JSON.getNodeFactory().textNode("refused: " + refused);
        }
    }
}
