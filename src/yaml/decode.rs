//! From a tree to a typed value, with every error.
//!
//! serde stops at the first error. So the part that is to blame is taken out of the tree and the rest is decoded again, until
//! nothing is wrong any more; a field that is missing only because it was taken out is not reported, its map is taken out instead.

use super::{Kind, Mark, Node, Path, Problem, Problems};
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};
use std::collections::BTreeSet;
use std::fmt;

impl Node {
    /// Decodes a typed value.
    ///
    /// # Errors
    /// Every error of the tree.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Problems> {
        self.decode_at(&Path::root())
    }

    /// Decodes a part of a document; errors name its fields from the document's root.
    ///
    /// # Errors
    /// Every error of the tree.
    pub fn decode_at<T: DeserializeOwned>(&self, root: &Path) -> Result<T, Problems> {
        let mut problems = Problems::default();
        let mut taken = BTreeSet::new();
        loop {
            let error = match T::deserialize(Decoder { node: self, path: root.clone(), taken: &taken }) {
                Ok(value) => return problems.or(value),
                Err(error) => error,
            };
            let path = error.at.as_ref().map_or_else(|| root.clone(), |(path, _)| path.clone());
            let because_taken = error.missing.as_ref().is_some_and(|field| taken.contains(&path.key(field)));
            if !because_taken {
                problems.push(error.problem(self, root));
            }
            if path == *root || !taken.insert(path) {
                return problems.or(()).and_then(|()| Err(self.problem(root, "cannot be read").into()));
            }
        }
    }
}

/// An error of decoding; the place is filled in by the innermost value that knows it.
#[derive(Debug)]
struct Error {
    message: String,
    missing: Option<String>,
    at: Option<(Path, Mark)>,
}

impl Error {
    fn at(mut self, path: &Path, mark: &Mark) -> Error {
        self.at.get_or_insert_with(|| (path.clone(), mark.clone()));
        self
    }

    fn problem(self, node: &Node, root: &Path) -> Problem {
        match self.at {
            Some((path, mark)) => mark.problem(&path, self.message),
            None => node.problem(root, self.message),
        }
    }
}

fn nearest<'a>(word: &str, known: &'a [&'a str]) -> String {
    let best = known.iter().map(|k| (strsim::jaro_winkler(&word.to_lowercase(), &k.to_lowercase()), k));
    match best.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((score, name)) if score > 0.8 => format!("did you mean `{name}`?"),
        Some(_) if known.len() <= 30 => format!("known here: {}", known.join(", ")),
        Some(_) => "it is not known here".to_owned(),
        None => "nothing may stand here".to_owned(),
    }
}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Error {
        Error { message: message.to_string(), missing: None, at: None }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Error {
        de::Error::custom(format_args!("unknown field `{field}`: {}", nearest(field, expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Error {
        de::Error::custom(format_args!("unknown value `{variant}`: {}", nearest(variant, expected)))
    }

    fn missing_field(field: &'static str) -> Error {
        Error { message: format!("the field `{field}` is missing"), missing: Some(field.to_owned()), at: None }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Error {
        de::Error::custom(format_args!("found {found}, expected {expected}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[derive(Clone)]
struct Decoder<'a> {
    node: &'a Node,
    path: Path,
    taken: &'a BTreeSet<Path>,
}

/// A key: an error about it (an unknown field) stands at the key, not at its value.
struct KeyDecoder<'a> {
    key: &'a str,
    path: Path,
    mark: &'a Mark,
}

impl<'de, 'a: 'de> de::Deserializer<'de> for KeyDecoder<'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.key).map_err(|e: Error| e.at(&self.path, self.mark))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'a> IntoDeserializer<'a, Error> for KeyDecoder<'a> {
    type Deserializer = KeyDecoder<'a>;

    fn into_deserializer(self) -> KeyDecoder<'a> {
        self
    }
}

impl<'a> IntoDeserializer<'a, Error> for Decoder<'a> {
    type Deserializer = Decoder<'a>;

    fn into_deserializer(self) -> Decoder<'a> {
        self
    }
}

impl<'a> Decoder<'a> {
    fn entries(&self) -> impl Iterator<Item = (KeyDecoder<'a>, Decoder<'a>)> + use<'a> {
        let (base, taken) = (self.path.clone(), self.taken);
        self.node.entries().iter().filter_map(move |entry| {
            let path = base.key(&entry.key);
            if taken.contains(&path) {
                return None;
            }
            let key = KeyDecoder { key: &entry.key, path: path.clone(), mark: &entry.mark };
            Some((key, Decoder { node: &entry.value, path, taken }))
        })
    }

    fn items(&self) -> impl Iterator<Item = Decoder<'a>> + use<'a> {
        let (base, taken) = (self.path.clone(), self.taken);
        self.node.items().iter().enumerate().filter_map(move |(i, node)| {
            let path = base.item(i, node);
            (!taken.contains(&path)).then_some(Decoder { node, path, taken })
        })
    }
}

impl<'de, 'a: 'de> de::Deserializer<'de> for Decoder<'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let result = match &self.node.kind {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(value) => visitor.visit_bool(*value),
            Kind::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => visitor.visit_u64(value),
                (None, Some(value)) => visitor.visit_i64(value),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Kind::Text(text) => visitor.visit_str(text),
            Kind::List(_) => visitor.visit_seq(SeqDeserializer::new(self.items())),
            Kind::Map(_) => visitor.visit_map(MapDeserializer::new(self.entries())),
        };
        result.map_err(|e: Error| e.at(&self.path, &self.node.mark))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.kind {
            Kind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        let (path, mark) = (self.path.clone(), &self.node.mark);
        visitor.visit_newtype_struct(self).map_err(|e| e.at(&path, mark))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (path, mark) = (self.path.clone(), &self.node.mark);
        let result = match &self.node.kind {
            Kind::Text(text) => {
                let variant: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
                visitor.visit_enum(variant)
            }
            Kind::Map(entries) if entries.len() == 1 && self.taken.contains(&self.path.key(&entries[0].key)) => {
                Err(Error { message: String::new(), missing: Some(entries[0].key.clone()), at: None })
            }
            Kind::Map(entries) if entries.len() == 1 => {
                visitor.visit_enum(de::value::MapAccessDeserializer::new(MapDeserializer::new(self.entries())))
            }
            _ => Err(de::Error::custom(format_args!("expected exactly one of {}", variants.join(", ")))),
        };
        result.map_err(|e: Error| e.at(&path, mark))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier ignored_any
    }
}
