//! The schema of [`Parts`], which has a member for each part that took time.

use super::{Part, Parts};
use crate::model::numbers_by_id;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

impl JsonSchema for Parts {
    fn schema_name() -> Cow<'static, str> {
        "ServerTimes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Times of a server by part, ns; absent parts took none.",
            "properties": numbers_by_id::<Part>(generator, 1),
        })
    }
}
