//! Members of schemas, for types that serialise themselves.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Returns a member for each value of `T`, an enumeration whose values have doc comments: a number of
/// at least `min`, with the doc comment.
pub(crate) fn numbers_by_id<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    min: u64,
) -> Map<String, Value> {
    let schema = T::json_schema(generator).to_value();
    let values = schema["oneOf"].as_array().into_iter().flatten();
    let number = |value: &Value| {
        let number =
            json!({ "type": "integer", "minimum": min, "description": value["description"] });
        Some((value["const"].as_str()?.to_owned(), number))
    };
    values.filter_map(number).collect()
}
