import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/** Reads schemas and bytes of Avro from standard input, and writes them with what AvroData makes, as JsonConverter says it. */
public class AvroReads {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode cases = (ArrayNode) JSON.readTree(System.in);
        JsonConverter writer = new JsonConverter();
        writer.configure(Map.of("converter.type", "value", "replace.null.with.default", false), false);
        for (JsonNode one : cases) {
            ((ObjectNode) one).set("answer", answer(writer, one));
        }
        System.out.println(JSON.writeValueAsString(cases));
    }

    private static JsonNode answer(JsonConverter writer, JsonNode one) {
        try {
            AvroData data = new AvroData(new AvroDataConfig(new HashMap<>()));
            org.apache.avro.Schema avro = new org.apache.avro.Schema.Parser().parse(one.get("schema").asText());
            byte[] bytes = Base64.getDecoder().decode(one.get("bytes").asText());
            Object value;
            if (avro.getType() == org.apache.avro.Schema.Type.BYTES) { // as Confluent's deserializer does
                value = ByteBuffer.wrap(bytes);
            } else {
                value = new GenericDatumReader<Object>(avro).read(null, DecoderFactory.get().binaryDecoder(bytes, null));
            }
            SchemaAndValue made = data.toConnectData(avro, value);
            return JSON.readTree(writer.fromConnectData("t", made.schema(), made.value()));
        } catch (Exception refused) {
            return JSON.getNodeFactory().textNode("refused: " + refused);
        }
    }
}
