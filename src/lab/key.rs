//! What arms may differ in: the check of `vary` and the comparability key, which hashes everything else.

use crate::yaml::{Kind, Node, Path, Problems};
use sha2::{Digest, Sha256};

/// Checks that resolved arms differ only below the paths of `vary` and gives the hash of what they share.
///
/// Two runs may be compared when their keys are equal: then all but what the lab is about was the same.
///
/// # Errors
/// Every difference elsewhere, and every path below which nothing differs.
pub fn comparability_key(arms: &[(&str, &Node)], vary: &[(&str, &Node)]) -> Result<String, Problems> {
    let mut problems = Problems::default();
    let mut used = vec![false; vary.len()];
    let Some(((_, first), others)) = arms.split_first() else {
        return Ok(hash(&serde_json::Value::Null));
    };
    for (name, other) in others {
        compare(&Path::root(), Some(first), Some(other), &mut |path, blame| {
            let mut allowed = false;
            for (i, (prefix, _)) in vary.iter().enumerate() {
                if path.within(prefix) {
                    used[i] = true;
                    allowed = true;
                }
            }
            if !allowed {
                let message = format!(
                    "arm {name} differs from arm {} here, but `vary` does not name it: add the path to `vary` or make the arms agree",
                    arms[0].0
                );
                problems.push(blame.problem(path, message));
            }
        });
    }
    for ((prefix, node), _) in vary.iter().zip(&used).filter(|(_, used)| !**used) {
        problems.push(node.problem(&Path::root().key("vary"), format!("no arm differs in {prefix}: take it out of `vary`")));
    }
    let shared = without(&Path::root(), first, vary);
    problems.or(hash(&shared))
}

/// Where two arms of different labs differ, apart from what either lab is about.
pub fn differing(one: &Node, other: &Node, vary: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    compare(&Path::root(), Some(one), Some(other), &mut |path, _| {
        if !vary.iter().any(|prefix| path.within(prefix)) {
            found.push(path.to_string());
        }
    });
    found
}

/// Whether two of these differ below a path.
pub fn differs_below(arms: &[&Node], prefix: &str) -> bool {
    let mut differs = false;
    for other in arms.iter().skip(1) {
        compare(&Path::root(), Some(arms[0]), Some(other), &mut |path, _| differs |= path.within(prefix));
    }
    differs
}

/// Hash of a value, whatever the order of its keys.
pub fn hash(value: &serde_json::Value) -> String {
    Sha256::digest(canonical(value).as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}

/// JSON with the keys in order, so that the order of a file's lines does not count.
fn canonical(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let sorted: std::collections::BTreeMap<_, _> = map.iter().collect();
            let parts: Vec<_> = sorted.iter().map(|(k, v)| format!("{}:{}", Value::from(k.as_str()), canonical(v))).collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        leaf => leaf.to_string(),
    }
}

fn without(path: &Path, node: &Node, vary: &[(&str, &Node)]) -> serde_json::Value {
    let keep = |p: &Path| !vary.iter().any(|(prefix, _)| p.within(prefix));
    match &node.kind {
        Kind::Map(entries) => serde_json::Value::Object(
            entries
                .iter()
                .map(|e| (path.key(&e.key), e))
                .filter(|(p, _)| keep(p))
                .map(|(p, e)| (e.key.clone(), without(&p, &e.value, vary)))
                // What becomes empty by leaving out counts as absent: one arm may have nothing there.
                .filter(|(_, v)| !v.as_object().is_some_and(serde_json::Map::is_empty))
                .collect(),
        ),
        Kind::List(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| (path.item(i, item), item))
            .filter(|(p, _)| keep(p))
            .map(|(p, item)| without(&p, item, vary))
            .collect(),
        _ => node.to_json(),
    }
}

fn compare(path: &Path, a: Option<&Node>, b: Option<&Node>, differ: &mut impl FnMut(&Path, &Node)) {
    let (a, b) = match (a, b) {
        (None, None) => return,
        (Some(only), None) | (None, Some(only)) => return leaves(path, only, differ),
        (Some(a), Some(b)) => (a, b),
    };
    match (&a.kind, &b.kind) {
        (Kind::Map(old), Kind::Map(new)) => {
            for entry in old {
                compare(&path.key(&entry.key), Some(&entry.value), b.get(&entry.key), differ);
            }
            for entry in new.iter().filter(|e| a.get(&e.key).is_none()) {
                compare(&path.key(&entry.key), None, Some(&entry.value), differ);
            }
        }
        (Kind::List(old), Kind::List(new)) => {
            let place = |list: &[Node], p: &Path| list.iter().enumerate().position(|(i, n)| path.item(i, n) == *p);
            for (i, item) in old.iter().enumerate() {
                let p = path.item(i, item);
                compare(&p, Some(item), place(new, &p).map(|j| &new[j]), differ);
            }
            for (i, item) in new.iter().enumerate() {
                let p = path.item(i, item);
                if place(old, &p).is_none() {
                    compare(&p, None, Some(item), differ);
                }
            }
        }
        _ if a.to_json() == b.to_json() => {}
        _ => differ(path, b),
    }
}

/// A value that only one side has differs leaf by leaf, so that `vary` may name a part of it.
fn leaves(path: &Path, node: &Node, differ: &mut impl FnMut(&Path, &Node)) {
    match &node.kind {
        Kind::Map(entries) if !entries.is_empty() => {
            entries.iter().for_each(|e| leaves(&path.key(&e.key), &e.value, differ));
        }
        Kind::List(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(i, item)| leaves(&path.item(i, item), item, differ));
        }
        _ => differ(path, node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read;

    fn key(a: &str, b: &str, vary: &[&str]) -> Result<String, Problems> {
        let (a, b, v) = (read("a", a).unwrap(), read("b", b).unwrap(), read("v", "[x]").unwrap());
        let vary: Vec<_> = vary.iter().map(|p| (*p, &v)).collect();
        comparability_key(&[("one", &a), ("two", &b)], &vary)
    }

    #[test]
    fn a_difference_elsewhere_is_told_with_its_line() {
        let problems = key("a: 1\nb: {c: 2}", "a: 1\nb: {c: 3, d: 1}", &["b.c"]).unwrap_err();
        assert_eq!(problems.iter().count(), 1);
        assert!(problems.to_string().starts_with("b:2:14: b.d: arm two differs"), "{problems}");
        assert!(key("a: 1\nb: {c: 2}", "a: 1\nb: {c: 3, d: 1}", &["b"]).is_ok());
    }

    #[test]
    fn a_path_that_does_not_vary_is_told() {
        assert!(key("a: 1", "a: 1", &["a"]).unwrap_err().to_string().contains("no arm differs in a"));
    }

    #[test]
    fn the_key_ignores_what_varies_and_the_order_of_lines_but_nothing_else() {
        let base = key("a: 1\nl: [{name: x, v: 1}, {name: y, v: 1}]", "a: 1\nl: [{name: x, v: 2}, {name: y, v: 1}]", &["l[x].v"]);
        let same = key("l: [{name: x, v: 7}, {name: y, v: 1}]\na: 1", "a: 1\nl: [{name: x, v: 9}, {name: y, v: 1}]", &["l[x].v"]);
        let other =
            key("a: 1\nl: [{name: x, v: 1}, {name: y, v: 2}]", "a: 1\nl: [{name: x, v: 2}, {name: y, v: 2}]", &["l[x].v"]);
        assert_eq!(base.clone().unwrap(), same.unwrap());
        assert_ne!(base.unwrap(), other.unwrap());
    }

    #[test]
    fn prefixes_end_at_a_separator() {
        assert!(key("ab: 1", "ab: 2", &["a"]).is_err());
    }
}
