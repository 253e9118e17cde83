//! `docs/report.schema.json` is the schema of these types. The members that the program adds are of its
//! tests.

use super::View;
use super::quic::{HandshakeOutcomes, HandshakeParts};
use super::totals::{LedgerView, OutcomesView};
use crate::model::{OutcomeKind, Owner, numbers_by_id, quic};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use tcpwhy_testing::schema::Document;

#[test]
fn the_schema_of_reports_is_that_of_the_types() {
    let document = Document {
        name: "report",
        id: "urn:tcpwhy:report:1",
        title: "tcpwhy report",
        description: "What tcpwhy --json prints, schema version 1. All times are integers of \
            nanoseconds; those since the epoch exceed 2^53.",
        members_of_others: &["watch", "doctor"],
    };
    document.publish::<View<'static>>();
}

impl JsonSchema for LedgerView<'_> {
    fn schema_name() -> Cow<'static, str> {
        "LedgerView".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let ids = Owner::ALL.iter().map(|it| it.id());
        let times: Map<_, _> = ids
            .clone()
            .map(|id| (id.to_owned(), generator.subschema_for::<u64>().to_value()))
            .collect();
        json_schema!({
            "type": "object",
            "description": "Wall time by owner, nanoseconds.",
            "required": ids.collect::<Vec<_>>(),
            "properties": times,
        })
    }
}

impl JsonSchema for OutcomesView<'_> {
    fn schema_name() -> Cow<'static, str> {
        "OutcomesView".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut counts = numbers_by_id::<OutcomeKind>(generator, 0);
        let mut codes = generator.subschema_for::<BTreeMap<String, NonZeroU64>>();
        codes.insert(
            "description".into(),
            json!(
                "Number of errors by code: 503, gRPC 14, SQLSTATE 42P01, MySQL 1146, WRONGTYPE, \
                 alert handshake_failure."
            ),
        );
        counts.insert("codes".into(), codes.to_value());
        let required = OutcomeKind::ALL.iter().map(|it| it.id()).chain(["codes"]);
        json_schema!({
            "type": "object",
            "description": "Number of exchanges by how they ended.",
            "required": required.collect::<Vec<_>>(),
            "properties": counts,
        })
    }
}

impl JsonSchema for HandshakeOutcomes {
    fn schema_name() -> Cow<'static, str> {
        "QuicOutcomes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Number of connections by the result of the handshake.",
            "required": quic::Outcome::ALL.map(|it| it.id()),
            "properties": numbers_by_id::<quic::Outcome>(generator, 0),
        })
    }
}

impl JsonSchema for HandshakeParts {
    fn schema_name() -> Cow<'static, str> {
        "QuicLedger".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Time by part, ns; parts without time are absent.",
            "properties": numbers_by_id::<quic::Part>(generator, 1),
        })
    }
}
