//! The only door to the YAML crate: parse and emit, with errors that carry file, line and path.
//!
//! A file becomes a tree of [`Node`]s that know where they were written. Trees can be merged and checked, and the errors still
//! point at the line; [`Node::decode`] turns one into a typed value and reports every error of the tree, not only the first.

mod decode;
mod node;
mod problem;

pub use node::{Entry, Kind, Mark, Node, Path};
pub use problem::{Problem, Problems};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A text and the name it goes by in messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// A path, or "-" for standard input.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// Reads a text that holds exactly one document.
///
/// # Errors
/// The first error of the syntax; a text with no document or several.
pub fn read(name: &str, text: &str) -> Result<Node, Problems> {
    let mut documents = read_many(name, text)?;
    match documents.len() {
        1 => Ok(documents.remove(0)),
        0 => Err(Problem::of_file(name, "the file is empty: it must hold one document").into()),
        _ => Err(documents[1].problem(&Path::root(), "a second document: this file must hold exactly one").into()),
    }
}

/// Reads all documents of a text; empty ones are left out.
///
/// # Errors
/// The first error of the syntax.
pub fn read_many(name: &str, text: &str) -> Result<Vec<Node>, Problems> {
    let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
    node::read(&source).map_err(Problems::from)
}

/// Reads one document into a typed value.
///
/// # Errors
/// Every error of the text that can be told.
pub fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Problems> {
    read(name, text)?.decode()
}

/// Reads all documents of a text into typed values.
///
/// # Errors
/// Every error of every document that can be told.
pub fn parse_many<T: DeserializeOwned>(name: &str, text: &str) -> Result<Vec<T>, Problems> {
    let mut problems = Problems::default();
    let values = read_many(name, text)?.iter().filter_map(|node| problems.keep(node.decode())).collect();
    problems.or(values)
}

/// Writes a value as one YAML document that YAML 1.1 readers (kubelet, kind, kubeadm) read the same way.
///
/// # Errors
/// A value that YAML cannot express, such as a map with a list as key.
pub fn emit<T: Serialize>(value: &T) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Pond {
        name: String,
        depth: u32,
        fish: Vec<Fish>,
        #[serde(default)]
        mood: Option<Mood>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Fish {
        name: String,
        weight: f64,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    enum Mood {
        Calm,
        Waves { height: u32 },
    }

    const GOOD: &str =
        "name: a\ndepth: 3\nfish:\n  - {name: carp, weight: 2.5}\n  - name: pike\n    weight: 4\nmood:\n  waves: {height: 2}\n";

    #[test]
    fn a_good_text_is_read() {
        let pond: Pond = parse("pond.yaml", GOOD).unwrap();
        assert_eq!(pond.fish[1], Fish { name: "pike".into(), weight: 4.0 });
        assert_eq!(pond.mood, Some(Mood::Waves { height: 2 }));
        assert_eq!(parse::<Pond>("p", "name: a\ndepth: 1\nfish: []\nmood: calm\n").unwrap().mood, Some(Mood::Calm));
    }

    #[test]
    fn every_error_is_told_with_line_path_and_hint() {
        let text =
            "name: a\ndepth: deep\nfsh: []\nfish:\n  - nam: carp\n    weight: 2.5\n  - {name: pike, weight: x}\nmood: cal\n";
        let problems = parse::<Pond>("pond.yaml", text).unwrap_err();
        insta::assert_snapshot!(problems.to_string());
    }

    #[test]
    fn syntax_errors_name_the_line() {
        let problems = parse::<Pond>("pond.yaml", "name: a\n  depth: 3\n").unwrap_err();
        insta::assert_snapshot!(problems.to_string());
    }

    #[test]
    fn duplicate_keys_are_errors() {
        let problems = parse::<Pond>("pond.yaml", "name: a\nname: b\n").unwrap_err();
        assert!(problems.to_string().contains("pond.yaml:2:1"), "{problems}");
    }

    #[test]
    fn a_large_text_is_read_and_a_bomb_is_not() {
        let large = format!("[{}]", vec!["1"; 300_000].join(","));
        assert_eq!(read("large", &large).unwrap().items().len(), 300_000);
        let level = |n: usize| format!("l{n}: &l{n} [{}]\n", vec![format!("*l{}", n - 1); 10].join(","));
        let bomb: String = std::iter::once("l0: &l0 [1]\n".to_owned()).chain((1..9).map(level)).collect();
        assert!(read("bomb", &bomb).is_err());
    }

    #[test]
    fn documents_are_counted() {
        assert!(read("a", "").unwrap_err().to_string().contains("empty"));
        assert!(read("a", "x: 1\n---\ny: 2\n").unwrap_err().to_string().contains("a:3:1"));
        assert_eq!(parse_many::<serde_json::Value>("a", "x: 1\n---\ny: 2\n").unwrap().len(), 2);
    }

    #[test]
    fn what_yaml_1_1_would_misread_is_quoted() {
        let text = emit(&serde_json::json!({"a": "on", "b": "1_000", "c": "12:30", "d": "0755"})).unwrap();
        assert!(text.contains("'on'") || text.contains("\"on\""), "{text}");
        assert_eq!(parse::<serde_json::Value>("t", &text).unwrap()["b"], "1_000");
    }
}
