//! The JSON schemas in `docs`, made from the types that are serialised: members, order and what is
//! required are those of the fields, descriptions are their doc comments.
//!
//! A test calls [`Document::publish`]; it compares the file with the types, or writes it if `UPDATE`
//! is set.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A schema in `docs`.
pub struct Document<'a> {
    /// Name of the file before `.schema.json`.
    pub name: &'a str,
    /// The schema's id.
    pub id: &'a str,
    /// Title of the schema.
    pub title: &'a str,
    /// What the document is.
    pub description: &'a str,
    /// Members at the top that [`add_members`] gives, in the test of another crate.
    pub members_of_others: &'a [&'a str],
}

impl Document<'_> {
    /// Compares the file with the schema of `T`; with `UPDATE` set, writes the file.
    ///
    /// # Panics
    /// They differ, or the file cannot be read or written.
    pub fn publish<T: JsonSchema>(&self) {
        let (mut schema, defs) = schema_of::<T>();
        schema.remove("title");
        schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("$id".into(), json!(self.id));
        schema.insert("title".into(), json!(self.title));
        schema.insert("description".into(), json!(self.description));
        let others = read(self.name).filter(|_| !self.members_of_others.is_empty());
        let others = others.unwrap_or_default();
        let theirs = others.get("properties").and_then(Value::as_object);
        let theirs = theirs.into_iter().flatten();
        let kept = theirs.filter(|(name, _)| self.members_of_others.contains(&name.as_str()));
        let kept: Map<_, _> = kept.map(|(name, it)| (name.clone(), it.clone())).collect();
        let mut all_defs = object(others.get("$defs"));
        all_defs.extend(defs);
        object_mut(&mut schema, "properties").extend(kept);
        store(self.name, schema, &all_defs);
    }
}

/// Compares the members of `T` with those of the same names in the schema `name`, which another crate
/// publishes; with `UPDATE` set, writes them. They are optional there.
///
/// # Panics
/// They differ, or the file cannot be read or written; or the rest of the schema has another definition
/// of the same name as one of theirs.
pub fn add_members<T: JsonSchema>(name: &str) {
    let (members, defs) = schema_of::<T>();
    let members = object(members.get("properties"));
    let mut schema = read(name).expect("a schema that another crate publishes");
    let mut all_defs = object(schema.remove("$defs").as_ref());
    let properties = object_mut(&mut schema, "properties");
    properties.retain(|name, _| !members.contains_key(name));
    for shared in used(name, &schema.clone().into(), &all_defs) {
        let differs = defs.get(shared).is_some_and(|def| def != &all_defs[shared]);
        assert!(
            !differs,
            "{name}: two definitions of {shared}, or the other crate's test comes first"
        );
    }
    object_mut(&mut schema, "properties").extend(members);
    all_defs.extend(defs);
    store(name, schema, &all_defs);
}

/// Returns the schema of `T`, and the definitions that it refers to.
fn schema_of<T: JsonSchema>() -> (Map<String, Value>, Map<String, Value>) {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    let mut schema = object(Some(&schema));
    let mut defs = Map::new();
    for (name, def) in object(schema.remove("$defs").as_ref()) {
        let before = defs.insert(published(&name), def);
        assert!(before.is_none(), "two types have the name {}", published(&name));
    }
    (schema, defs)
}

/// Returns the name of a definition: that of the type in snake case, without `View`.
fn published(type_name: &str) -> String {
    let name = type_name.strip_suffix("View").unwrap_or(type_name);
    let mut published = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !published.is_empty() {
            published.push('_');
        }
        published.extend(letter.to_lowercase());
    }
    published
}

/// Makes the schema as strict as the serialisation is, and its words those of a reader of JSON.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(tidy);
            close(members);
            list_ids(members);
            // `uint64` and the like are names of Rust's.
            if members.get("format").is_some_and(Value::is_string) {
                members.remove("format");
            }
            // What a reader may assume is no part of what is written.
            if members.get("default").is_some_and(|it| !it.is_object()) {
                members.remove("default");
            }
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = plain(text);
            }
            if let Some(Value::String(target)) = members.get_mut("$ref") {
                let name = target.rsplit('/').next().map(published).unwrap_or_default();
                *target = format!("#/$defs/{name}");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Forbids members that are not named, and null where a member that may be absent has no value.
fn close(schema: &mut Map<String, Value>) {
    let required = schema.get("required").cloned().unwrap_or(json!([]));
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let is_required = |name: &String| {
        required.as_array().is_some_and(|all| all.iter().any(|it| it.as_str() == Some(name)))
    };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
        forbid_null(property);
    }
    schema.entry("additionalProperties").or_insert(json!(false));
}

/// Removes null from the values that `schema` allows.
fn forbid_null(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(any)) = members.get_mut("anyOf") {
        any.retain(|it| it != &json!({ "type": "null" }));
        if let [Value::Object(only)] = any.as_slice() {
            let only = only.clone();
            members.remove("anyOf");
            only.into_iter().for_each(|(key, value)| {
                members.entry(key).or_insert(value);
            });
        }
    }
}

/// Makes a list of ids of what `schemars` makes of an enumeration whose values have doc comments.
fn list_ids(schema: &mut Map<String, Value>) {
    let Some(Value::Array(all)) = schema.get("oneOf") else { return };
    let ids = all.iter().map(|it| match (it.get("const"), it.get("enum")) {
        (Some(id), None) => Some(vec![id.clone()]),
        (None, Some(Value::Array(ids))) => Some(ids.clone()),
        _ => None,
    });
    if let Some(ids) = ids.collect::<Option<Vec<_>>>() {
        schema.remove("oneOf");
        schema.insert("type".into(), json!("string"));
        schema.insert("enum".into(), ids.concat().into());
    }
}

/// Returns a doc comment without line breaks and the brackets of links to Rust items, and with the
/// JSON for `None`.
fn plain(text: &str) -> String {
    let text = text.split("\n\n").map(|it| it.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    text.replace("[`", "`").replace("`]", "`").replace("`None`", "null")
}

fn object(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

fn object_mut<'a>(schema: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = schema.entry(key).or_insert(json!({}));
    value.as_object_mut().expect("an object")
}

fn path(name: &str) -> std::path::PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    docs.join(format!("{name}.schema.json"))
}

fn read(name: &str) -> Option<Map<String, Value>> {
    let text = fs::read_to_string(path(name)).ok()?;
    let schema: Value = serde_json::from_str(&text).expect("a schema in JSON");
    Some(object(Some(&schema)))
}

/// Adds the definitions that are referred to, then compares with the file or writes it.
fn store(name: &str, mut schema: Map<String, Value>, defs: &Map<String, Value>) {
    let used = used(name, &schema.clone().into(), defs);
    let defs: Map<_, _> = used.iter().map(|&it| (it.to_owned(), defs[it].clone())).collect();
    if !defs.is_empty() {
        schema.insert("$defs".into(), defs.into());
    }
    let text = format!("{}\n", written(&schema.into(), 0, Order::Keywords));
    let path = path(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, text).expect("a schema that can be written");
        return;
    }
    let file = fs::read_to_string(path).unwrap_or_default();
    let differs = text.lines().zip(file.lines()).position(|(right, line)| right != line);
    assert!(
        text == file,
        "docs/{name}.schema.json is not that of the types, from line {} on: run this test with UPDATE=1",
        differs.unwrap_or_else(|| file.lines().count().min(text.lines().count())) + 1
    );
}

/// Returns the names of the definitions that `schema` refers to, itself or by others.
fn used<'a>(name: &str, schema: &Value, defs: &'a Map<String, Value>) -> BTreeSet<&'a str> {
    let mut used = BTreeSet::new();
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        for target in references(schema) {
            let def = defs.get_key_value(target);
            let (target, def) = def.unwrap_or_else(|| panic!("{name}: no definition {target}"));
            if used.insert(target.as_str()) {
                open.push(def);
            }
        }
    }
    used
}

/// Returns the names of the definitions that `schema` refers to itself.
fn references(schema: &Value) -> Vec<&str> {
    match schema {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|it| it.strip_prefix("#/$defs/"));
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// The order of the members of an object.
#[derive(Clone, Copy)]
enum Order<'a> {
    /// Keywords of a schema as a reader wants them.
    Keywords,
    /// Names, in the order in which `required` lists them.
    Names(&'a [Value]),
}

/// Keywords in the order in which they are written; others come after them.
const KEYWORDS: [&str; 16] = [
    "$schema",
    "$id",
    "title",
    "$ref",
    "description",
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "additionalProperties",
    "required",
    "properties",
    "items",
    "minItems",
    "maxItems",
];

impl Order<'_> {
    fn rank(self, key: &str) -> usize {
        let rank = match self {
            Self::Keywords if key == "$defs" => return usize::MAX,
            Self::Keywords => KEYWORDS.iter().position(|it| *it == key),
            Self::Names(names) => names.iter().position(|it| it == key),
        };
        rank.unwrap_or(usize::MAX - 1)
    }
}

/// Returns `value` as indented JSON; an array without objects is on one line if it fits.
fn written(value: &Value, depth: usize, order: Order<'_>) -> String {
    let [outer, inner] = [depth, depth + 1].map(|depth| "  ".repeat(depth));
    let lines = |items: Vec<String>| items.join(&format!(",\n{inner}"));
    match value {
        Value::Object(members) if !members.is_empty() => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| order.rank(key));
            let required = members.get("required").and_then(Value::as_array);
            let member = |(key, value): (&String, &Value)| {
                let order = match (order, key.as_str()) {
                    (Order::Keywords, "properties") => {
                        Order::Names(required.map_or(&[], Vec::as_slice))
                    }
                    (Order::Keywords, "$defs") => Order::Names(&[]),
                    _ => Order::Keywords,
                };
                format!("{}: {}", json!(key), written(value, depth + 1, order))
            };
            let members = sorted.into_iter().map(member).collect();
            format!("{{\n{inner}{}\n{outer}}}", lines(members))
        }
        Value::Array(items) if items.iter().any(|it| it.is_object() || it.is_array()) => {
            let items = items.iter().map(|it| written(it, depth + 1, Order::Keywords)).collect();
            format!("[\n{inner}{}\n{outer}]", lines(items))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(Value::to_string).collect();
            let line = format!("[{}]", items.join(", "));
            let fits = outer.len() + line.len() <= 100;
            if fits { line } else { format!("[\n{inner}{}\n{outer}]", lines(items)) }
        }
        other => other.to_string(),
    }
}
