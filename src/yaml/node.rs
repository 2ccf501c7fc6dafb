//! The tree of a document: values that know where they were written.

use super::{Problem, Source};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::sync::Arc;

/// A place in a text. Lines and columns count from 1.
#[derive(Clone, PartialEq, Eq)]
pub struct Mark {
    /// The text.
    pub source: Arc<Source>,
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source.name, self.line, self.column)
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The value.
    pub kind: Kind,
    /// Where it stands.
    pub mark: Mark,
}

/// The kinds of values, as in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map with its value. Keys are unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub mark: Mark,
    /// The value.
    pub value: Node,
}

/// The way from a document's root to a value, as users write it: `spec.containers[main].resources`.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// The document itself.
    #[must_use]
    pub fn root() -> Path {
        Path::default()
    }

    /// The path of a map's entry.
    #[must_use]
    pub fn key(&self, key: &str) -> Path {
        Path(if self.0.is_empty() { key.to_owned() } else { format!("{}.{key}", self.0) })
    }

    /// The path of a list's item, by its `name` where it has one.
    #[must_use]
    pub fn item(&self, index: usize, item: &Node) -> Path {
        match item.get("name").and_then(Node::text) {
            Some(name) => Path(format!("{}[{name}]", self.0)),
            None => Path(format!("{}[{index}]", self.0)),
        }
    }

    /// Whether this is the document itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `other` or lies below it.
    #[must_use]
    pub fn within(&self, other: &str) -> bool {
        self.0.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Path {
        Path(text.to_owned())
    }
}

impl From<String> for Path {
    fn from(text: String) -> Path {
        Path(text)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Node {
    /// The value of a key, if this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|e| e.key == key).map(|e| &e.value)
    }

    /// The entries, none if this is not a map.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items, none if this is not a list.
    #[must_use]
    pub fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value at a path below this one, as far as it exists: where an error about that path should point.
    #[must_use]
    pub fn nearest(&self, path: &Path) -> &Node {
        let mut node = self;
        for part in path.as_str().split(['.', '[']).filter(|p| !p.is_empty()) {
            let found = match part.strip_suffix(']') {
                None => node.get(part),
                Some(item) => {
                    let named = |n: &&Node| n.get("name").and_then(Node::text) == Some(item);
                    node.items().iter().find(named).or_else(|| node.items().get(item.parse::<usize>().ok()?))
                }
            };
            match found {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// A problem with the value at a path, or with the nearest value above it that exists.
    #[must_use]
    pub fn blame(&self, path: impl Into<Path>, message: impl Into<String>) -> Problem {
        let path = path.into();
        self.nearest(&path).problem(&path, message)
    }

    /// A problem with this value.
    #[must_use]
    pub fn problem(&self, path: &Path, message: impl Into<String>) -> Problem {
        self.mark.problem(path, message)
    }

    /// The value without places.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match &self.kind {
            Kind::Null => serde_json::Value::Null,
            Kind::Bool(b) => (*b).into(),
            Kind::Number(n) => n.clone().into(),
            Kind::Text(t) => t.clone().into(),
            Kind::List(items) => items.iter().map(Node::to_json).collect(),
            Kind::Map(entries) => serde_json::Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.to_json())).collect()),
        }
    }

    /// What kind of value this is, in words.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a truth value",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

impl Mark {
    /// A problem at this place.
    #[must_use]
    pub fn problem(&self, path: &Path, message: impl Into<String>) -> Problem {
        Problem { file: self.source.name.clone(), mark: Some(self.clone()), path: path.clone(), message: message.into() }
    }
}

/// Reads all documents of a text.
pub(super) fn read(source: &Arc<Source>) -> Result<Vec<Node>, Problem> {
    // The crate's usual budget is one for configurations; a cluster's objects as JSON are larger. Aliases, by which a short text can be huge,
    // keep their own limits.
    let size = source.text.len();
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_nodes: size.max(250_000),
            max_events: size.saturating_mul(2).max(1_000_000),
            max_total_scalar_bytes: size.max(64 << 20),
        },
    };
    match serde_yaml::from_multiple_with_options::<Raw>(&source.text, options) {
        Ok(documents) => Ok(documents.into_iter().map(|raw| raw.placed(source)).collect()),
        Err(error) => {
            let mark = error.location().and_then(|at| mark(source, &at));
            // The crate appends the place to its message; ours stands in front.
            let text = error.without_snippet().to_string();
            let message = text.split(" at line ").next().unwrap_or(&text).lines().next().unwrap_or("not YAML").to_owned();
            Err(Problem { file: source.name.clone(), mark, path: Path::root(), message })
        }
    }
}

fn mark(source: &Arc<Source>, at: &serde_yaml::Location) -> Option<Mark> {
    let (line, column) = (u32::try_from(at.line()).ok()?, u32::try_from(at.column()).ok()?);
    (line > 0).then(|| Mark { source: source.clone(), line, column })
}

/// A value as the crate hands it over.
struct Raw(serde_yaml::Spanned<RawKind>);

enum RawKind {
    Leaf(Kind),
    List(Vec<Raw>),
    Map(Vec<(serde_yaml::Spanned<String>, Raw)>),
}

impl Raw {
    fn placed(self, source: &Arc<Source>) -> Node {
        let place = |at: &serde_yaml::Location| mark(source, at).unwrap_or(Mark { source: source.clone(), line: 1, column: 1 });
        let kind = match self.0.value {
            RawKind::Leaf(kind) => kind,
            RawKind::List(items) => Kind::List(items.into_iter().map(|raw| raw.placed(source)).collect()),
            RawKind::Map(entries) => Kind::Map(
                entries
                    .into_iter()
                    .map(|(key, raw)| {
                        let value = raw.placed(source);
                        Entry { mark: mark(source, &key.referenced).unwrap_or(value.mark.clone()), key: key.value, value }
                    })
                    .collect(),
            ),
        };
        Node { kind, mark: place(&self.0.referenced) }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        serde_yaml::Spanned::deserialize(deserializer).map(Raw)
    }
}

impl<'de> Deserialize<'de> for RawKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawKind, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has as well")
    }

    fn visit_unit<E>(self) -> Result<RawKind, E> {
        Ok(RawKind::Leaf(Kind::Null))
    }

    fn visit_none<E>(self) -> Result<RawKind, E> {
        Ok(RawKind::Leaf(Kind::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawKind, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawKind, E> {
        Ok(RawKind::Leaf(Kind::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawKind, E> {
        Ok(RawKind::Leaf(Kind::Number(value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawKind, E> {
        Ok(RawKind::Leaf(Kind::Number(value.into())))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<RawKind, E> {
        let number = serde_json::Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(RawKind::Leaf(Kind::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawKind, E> {
        Ok(RawKind::Leaf(Kind::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawKind, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(RawKind::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawKind, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(RawKind::Map(entries))
    }
}
