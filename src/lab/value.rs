//! The leaves of a lab file: sizes, spans of time, bounds.

use crate::units::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A size in bytes, typed as a Kubernetes quantity: `64Mi`, `1.5Gi`, `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A span of virtual time in nanoseconds, typed as Go types durations: `30s`, `1m30s`, `250ms`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

/// A bound in the unit of the metric it bounds: a number, a quantity, or a span of time. Parsed when the metric is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount(pub String);

impl Bytes {
    /// Reads a quantity of whole bytes that is not negative.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Bytes, String> {
        let quantity: Quantity = text.parse().map_err(|e| format!("`{text}` is not a quantity ({e}): write for example 64Mi"))?;
        u64::try_from(quantity.ceil()).map(Bytes).map_err(|_| format!("`{text}` is negative: a size is 0 or more"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
        match units.iter().find(|(shift, _)| self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Span {
    /// So many milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Reads numbers with units, one after the other, exactly.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Span, String> {
        let wrong = || format!("`{text}` is not a span of time: write for example 30s, 1m30s or 250ms");
        let mut rest = text;
        let mut total = 0u64;
        if text == "0" {
            return Ok(Span(0));
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(end);
            let scale = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
                return Err(wrong());
            }
            let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
            let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| wrong())? };
            let part = part * u128::from(scale) / 10u128.pow(fraction.len() as u32);
            let ns = whole.checked_mul(scale).and_then(|w| w.checked_add(part as u64)).ok_or_else(wrong)?;
            total = total.checked_add(ns).ok_or_else(wrong)?;
            rest = tail;
        }
        if text.is_empty() { Err(wrong()) } else { Ok(Span(total)) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0s"),
            ns if ns % 1_000_000_000 == 0 => write!(f, "{}s", ns / 1_000_000_000),
            ns if ns % 1_000_000 == 0 => write!(f, "{}ms", ns / 1_000_000),
            ns if ns % 1_000 == 0 => write!(f, "{}us", ns / 1_000),
            ns => write!(f, "{ns}ns"),
        }
    }
}

struct Text<T>(&'static str, fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! leaf {
    ($type:ident, $what:literal, $parse:expr, $schema:tt) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                deserializer.deserialize_any(Text($what, $parse))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

leaf!(Bytes, "a size such as 64Mi", Bytes::parse, {
    "type": ["string", "integer"],
    "description": "A size in bytes as a Kubernetes quantity, for example 64Mi."
});
leaf!(Span, "a span of time such as 30s", Span::parse, {
    "type": "string",
    "description": "A span of virtual time, for example 30s, 1m30s or 250ms."
});
leaf!(Amount, "a number, a size or a span of time", |text| Ok(Amount(text.to_owned())), {
    "type": ["string", "number"],
    "description": "A bound in the metric's own unit: a number, a size such as 64Mi, or a span of time such as 2s."
});

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Folded text of a YAML file as one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact() {
        assert_eq!(Span::parse("1m30s"), Ok(Span(90_000_000_000)));
        assert_eq!(Span::parse("0.1s"), Ok(Span(100_000_000)));
        assert_eq!(Span::parse("1.5h"), Ok(Span(5_400_000_000_000)));
        assert_eq!(Span::parse(".5us"), Ok(Span(500)));
        for wrong in ["", "s", "3", "3x", "1 s", "-1s", "1s2", ".s", "99999999999h"] {
            assert!(Span::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_is_read_back(n in 0..=i64::MAX as u64) {
            proptest::prop_assert_eq!(Span::parse(&Span(n).to_string()), Ok(Span(n)));
            proptest::prop_assert_eq!(Bytes::parse(&Bytes(n).to_string()), Ok(Bytes(n)));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = (Span::parse(&text), Bytes::parse(&text));
        }
    }
}
