//! The published JSON Schema of lab.yaml is the one the program has.

#![cfg(feature = "cli")]

#[test]
fn the_published_schema_is_current() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/labs/lab.schema.json");
    let published: serde_json::Value =
        serde_json::from_str(&fs_err::read_to_string(file).expect("it is published")).expect("JSON");
    let current = serde_json::to_value(highwater::lab::schema()).expect("a schema is JSON");
    assert!(published == current, "run `cargo xtask schema`: labs/lab.schema.json is not current");
}
