//! JSON merge patch (RFC 7396) over trees, with one addition: lists whose items all have a `name` merge by it.
//!
//! What a patch puts into the tree keeps the patch's line, so an error in an arm points at the arm.

use crate::yaml::{Entry, Kind, Node};

/// Applies a patch.
#[must_use]
pub fn merge(base: &Node, patch: &Node) -> Node {
    match (&base.kind, &patch.kind) {
        (Kind::Map(old), Kind::Map(new)) => Node { kind: Kind::Map(merge_maps(old, new)), mark: base.mark.clone() },
        (Kind::List(old), Kind::List(new)) if all_named(old) && all_named(new) => {
            Node { kind: Kind::List(merge_lists(old, new)), mark: base.mark.clone() }
        }
        // A map over something that is no map starts from nothing, so that its nulls vanish as well.
        (_, Kind::Map(new)) => Node { kind: Kind::Map(merge_maps(&[], new)), mark: patch.mark.clone() },
        _ => patch.clone(),
    }
}

fn merge_maps(old: &[Entry], new: &[Entry]) -> Vec<Entry> {
    let mut merged = old.to_vec();
    for entry in new {
        let place = merged.iter().position(|e| e.key == entry.key);
        match (place, &entry.value.kind) {
            (Some(i), Kind::Null) => drop(merged.remove(i)),
            (None, Kind::Null) => {}
            (Some(i), _) => merged[i].value = merge(&merged[i].value, &entry.value),
            (None, Kind::Map(entries)) => {
                let value = Node { kind: Kind::Map(merge_maps(&[], entries)), mark: entry.value.mark.clone() };
                merged.push(Entry { value, ..entry.clone() });
            }
            (None, _) => merged.push(entry.clone()),
        }
    }
    merged
}

fn merge_lists(old: &[Node], new: &[Node]) -> Vec<Node> {
    let mut merged = old.to_vec();
    for item in new {
        let place = merged.iter().position(|e| name(e) == name(item));
        let delete = item.get("$patch").and_then(Node::text) == Some("delete");
        match place {
            Some(i) if delete => drop(merged.remove(i)),
            Some(i) => merged[i] = merge(&merged[i], item),
            None if delete => {}
            None => merged.push(item.clone()),
        }
    }
    merged
}

fn all_named(items: &[Node]) -> bool {
    !items.is_empty() && items.iter().all(|item| name(item).is_some())
}

fn name(item: &Node) -> Option<&str> {
    item.get("name").and_then(Node::text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn merged(base: &str, patch: &str) -> Value {
        merge(&yaml::read("base", base).unwrap(), &yaml::read("patch", patch).unwrap()).to_json()
    }

    /// The examples of RFC 7396, appendix A, that have no list with names.
    #[test]
    fn the_rfc_examples_hold() {
        for (base, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, json!({"a":"c"})),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, json!({"a":"b","b":"c"})),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, json!({})),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, json!({"b":"c"})),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, json!({"a":"c"})),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, json!({"a":["b"]})),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, json!({"a":{"b":"d"}})),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, json!({"a":[1]})),
            (r#"["a","b"]"#, r#"["c","d"]"#, json!(["c", "d"])),
            (r#"{"a":"b"}"#, r#"["c"]"#, json!(["c"])),
            (r#"{"e":null}"#, r#"{"a":1}"#, json!({"e":null,"a":1})),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, json!({"a":"b"})),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, json!({"a":{"bb":{}}})),
        ] {
            assert_eq!(merged(base, patch), result, "{base} + {patch}");
        }
    }

    #[test]
    fn named_items_merge_and_can_be_deleted() {
        let base = "l: [{name: a, x: 1, y: 2}, {name: b}]";
        assert_eq!(
            merged(base, "l: [{name: a, x: 3}, {name: c}]"),
            json!({"l": [{"name":"a","x":3,"y":2},{"name":"b"},{"name":"c"}]})
        );
        assert_eq!(merged(base, "l: [{name: a, $patch: delete}]"), json!({"l": [{"name":"b"}]}));
        assert_eq!(merged(base, "l: []"), json!({"l": []}));
    }

    #[test]
    fn values_keep_the_line_they_were_written_on() {
        let base = yaml::read("base", "a: 1\nb: {c: 2}\n").unwrap();
        let patch = yaml::read("patch", "\n\nb:\n  c: 3\n").unwrap();
        let tree = merge(&base, &patch);
        assert_eq!(tree.get("a").unwrap().mark.source.name, "base");
        assert_eq!(format!("{:?}", tree.get("b").unwrap().get("c").unwrap().mark), "patch:4:6");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..9).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_twice_is_a_patch_once_and_a_null_free_patch_is_contained(base in value(), patch in value()) {
            let (base, patch) = (base.to_string(), patch.to_string());
            let tree = |text: &str| yaml::read("t", text).unwrap();
            let once = merge(&tree(&base), &tree(&patch));
            prop_assert_eq!(merge(&once, &tree(&patch)).to_json(), once.to_json());
            prop_assert_eq!(merge(&tree("{}"), &tree(&patch)).to_json(), tree(&patch).to_json());
        }
    }
}
