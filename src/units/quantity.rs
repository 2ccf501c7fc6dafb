//! The Kubernetes quantity, exact: the whole grammar, the canonical print, rounding up to whole units.

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::{Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, Neg, Sub};
use std::str::FromStr;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Kubernetes caps what is written with a binary suffix at the largest int64 (`maxAllowed` of apimachinery's resource package).
const BINARY_CAP: u128 = i64::MAX as u128;

/// How a quantity was written, and so how it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Ki, Mi, Gi, Ti, Pi, Ei.
    Binary,
    /// n, u, m, none, k, M, G, T, P, E.
    #[default]
    Decimal,
    /// An exponent such as e9.
    Exponent,
}

/// A number of bytes, cores or anything else that Kubernetes counts, exact to a billionth.
///
/// Equality and order are those of the value: `1Gi` equals `1024Mi`. The rules are those of apimachinery's `resource.Quantity`:
/// what is more precise than a billionth is rounded away from zero when parsed. Magnitudes above 1.7e29 are refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text does not have the shape number plus suffix.
    #[error("quantity {0:?} must be a number with an optional suffix, for example 512Mi, 1.5Gi, 1500m or 1e9")]
    Shape(String),
    /// The suffix is none of Kubernetes'.
    #[error("quantity {0:?} has the unknown suffix {1:?}; use n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent")]
    Suffix(String, String),
    /// The number cannot be held exactly.
    #[error("quantity {0:?} is too large")]
    TooLarge(String),
}

impl Quantity {
    /// Zero, written `0`.
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::Decimal };

    /// A whole number of units, printed in the given format.
    pub const fn new(units: i64, format: Format) -> Self {
        Quantity { nanos: units as i128 * NANOS_PER_UNIT, format }
    }

    /// A number of bytes, printed with binary suffixes.
    pub const fn bytes(bytes: u64) -> Self {
        Quantity { nanos: bytes as i128 * NANOS_PER_UNIT, format: Format::Binary }
    }

    /// A number of thousandths, printed in decimal.
    pub const fn thousandths(millis: i64) -> Self {
        Quantity { nanos: millis as i128 * (NANOS_PER_UNIT / 1000), format: Format::Decimal }
    }

    /// How it was written.
    pub const fn format(self) -> Format {
        self.format
    }

    /// The exact value in billionths.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whole units, rounded away from zero (`Quantity.Value`). Saturates at the bounds of an i64.
    pub fn ceil(self) -> i64 {
        saturate(divide_away_from_zero(self.nanos, NANOS_PER_UNIT))
    }

    /// Thousandths, rounded away from zero (`Quantity.MilliValue`). Saturates at the bounds of an i64.
    pub fn milli_ceil(self) -> i64 {
        saturate(divide_away_from_zero(self.nanos, NANOS_PER_UNIT / 1000))
    }

    /// Whether it is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The value, but no less than zero.
    pub fn or_zero_if_negative(self) -> Self {
        if self.nanos < 0 { Quantity { nanos: 0, ..self } } else { self }
    }

    fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        let shape = || ParseQuantityError::Shape(text.to_owned());
        let bytes = text.as_bytes();
        let negative = bytes.first() == Some(&b'-');
        let start = usize::from(negative || bytes.first() == Some(&b'+'));
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let int_end = start + digits(start);
        let (frac_start, frac_end) = match bytes.get(int_end) {
            Some(b'.') => (int_end + 1, int_end + 1 + digits(int_end + 1)),
            _ => (int_end, int_end),
        };
        if text.is_empty() {
            return Err(shape());
        }
        let (int, frac, suffix) = (&bytes[start..int_end], &bytes[frac_start..frac_end], &bytes[frac_end..]);
        let Some((unit, format)) = unit(suffix) else {
            let suffix = &text[frac_end..];
            let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
            let number = letters.strip_prefix(['+', '-']).unwrap_or(letters);
            return Err(match number.bytes().all(|b| b.is_ascii_digit()) {
                true => ParseQuantityError::Suffix(text.to_owned(), suffix.to_owned()),
                false => shape(),
            });
        };
        if int.is_empty() && frac.is_empty() && !reads_as_zero(&unit) {
            return Err(shape());
        }
        let (magnitude, format) = match unit {
            Unit::Shift(shift) => {
                let nanos = binary_nanos(int, frac, shift);
                let below_one = nanos > 0 && nanos < NANOS_PER_UNIT as u128;
                (Some(nanos), if below_one { Format::Decimal } else { format })
            }
            Unit::Power(power) => (decimal_nanos(int, frac, power), format),
        };
        let nanos =
            magnitude.and_then(|m| i128::try_from(m).ok()).ok_or_else(|| ParseQuantityError::TooLarge(text.to_owned()))?;
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }
}

enum Unit {
    /// Two to this power.
    Shift(u32),
    /// Ten to this power.
    Power(i32),
}

fn unit(suffix: &[u8]) -> Option<(Unit, Format)> {
    let decimal = |power| Some((Unit::Power(power), Format::Decimal));
    let binary = |shift| Some((Unit::Shift(shift), Format::Binary));
    match suffix {
        b"" => decimal(0),
        b"n" => decimal(-9),
        b"u" => decimal(-6),
        b"m" => decimal(-3),
        b"k" => decimal(3),
        b"M" => decimal(6),
        b"G" => decimal(9),
        b"T" => decimal(12),
        b"P" => decimal(15),
        b"E" => decimal(18),
        b"Ki" => binary(10),
        b"Mi" => binary(20),
        b"Gi" => binary(30),
        b"Ti" => binary(40),
        b"Pi" => binary(50),
        b"Ei" => binary(60),
        [b'e' | b'E', exponent @ ..] => {
            let power: i32 = std::str::from_utf8(exponent).ok()?.parse().ok()?;
            Some((Unit::Power(power), Format::Exponent))
        }
        _ => None,
    }
}

/// Kubernetes' scanner takes a missing number for 0, but only where its fast path handles the suffix (`ParseQuantity`).
fn reads_as_zero(unit: &Unit) -> bool {
    match *unit {
        Unit::Shift(shift) => shift <= 40,
        Unit::Power(power) => power >= -9,
    }
}

/// Billionths of `int.frac` times two to the power of `shift`, rounded up, with Kubernetes' cap.
fn binary_nanos(int: &[u8], frac: &[u8], shift: u32) -> u128 {
    let cap = BINARY_CAP * NANOS_PER_UNIT as u128;
    let unit = (1u128 << shift) * NANOS_PER_UNIT as u128;
    // From the last digit to the first: (digit × unit + what the later digits gave) / 10. Nothing is lost but "not exact".
    let (mut part, mut inexact) = (0u128, false);
    for digit in frac.iter().rev() {
        let sum = u128::from(digit - b'0') * unit + part;
        inexact |= !sum.is_multiple_of(10);
        part = sum / 10;
    }
    let whole = int.iter().try_fold(0u128, |n, digit| {
        let next = n * 10 + u128::from(digit - b'0');
        (next <= BINARY_CAP).then_some(next)
    });
    let whole = whole.and_then(|n| n.checked_mul(unit));
    whole.map_or(cap, |whole| whole.saturating_add(part + u128::from(inexact)).min(cap))
}

/// Billionths of `int.frac` times ten to the power of `power`, rounded up; None when it does not fit.
fn decimal_nanos(int: &[u8], frac: &[u8], power: i32) -> Option<u128> {
    let digits = || int.iter().chain(frac).map(|digit| u128::from(digit - b'0'));
    if digits().all(|digit| digit == 0) {
        return Some(0);
    }
    let scale = i64::from(power) + 9 - frac.len() as i64;
    let dropped = usize::try_from(-scale).unwrap_or(0);
    let kept = (int.len() + frac.len()).saturating_sub(dropped);
    let number = digits().take(kept).try_fold(0u128, |n, digit| n.checked_mul(10)?.checked_add(digit))?;
    let round = u128::from(digits().skip(kept).any(|digit| digit != 0));
    let factor = match u32::try_from(scale) {
        Ok(scale) => 10u128.checked_pow(scale)?,
        Err(_) => 1,
    };
    (number + round).checked_mul(factor)
}

fn divide_away_from_zero(value: i128, by: i128) -> i128 {
    value / by + if value % by == 0 { 0 } else { value.signum() }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Quantity::parse(text)
    }
}

/// The canonical form (`Quantity.CanonicalizeBytes`): no fraction, the largest suffix that loses nothing.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        let units = self.nanos / NANOS_PER_UNIT;
        if self.format == Format::Binary && whole && units.abs() >= 1024 {
            let (mut number, mut step) = (units, 0);
            while number % 1024 == 0 && step < 6 {
                number /= 1024;
                step += 1;
            }
            return write!(f, "{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let (mut number, mut power) = (self.nanos, -9i32);
        while number % 1000 == 0 && (power < 18 || self.format == Format::Exponent) {
            number /= 1000;
            power += 3;
        }
        match (self.format, power) {
            (_, 0) => write!(f, "{number}"),
            (Format::Exponent, _) => write!(f, "{number}e{power}"),
            _ => write!(f, "{number}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][((power + 9) / 3) as usize]),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Exact; a zero on the left takes over the other's format, as Kubernetes does. Saturates at the bounds of the representation.
impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity { nanos: self.nanos.saturating_add(other.nanos), format }
    }
}

/// Exact; a zero on the left takes over the other's format, as Kubernetes does. Saturates at the bounds of the representation.
impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        self + -other
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity { nanos: self.nanos.saturating_neg(), ..self }
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(items: I) -> Quantity {
        items.fold(Quantity::ZERO, Add::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a string or, as Kubernetes does, a bare number.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 512Mi, 1.5Gi, 1500m or 1e9")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.trim().parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::new(number, Format::Decimal))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity { nanos: i128::from(number) * NANOS_PER_UNIT, format: Format::Decimal })
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
                number.to_string().parse().map_err(E::custom)
            }
        }
        let quantity = deserializer.deserialize_any(Reader)?;
        if quantity.nanos == i128::MIN { Err(D::Error::custom("quantity is too large")) } else { Ok(quantity) }
    }
}

#[cfg(feature = "cli")]
impl schemars::JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A Kubernetes quantity such as 512Mi, 1.5Gi, 1500m or 1e9.",
            "type": ["string", "number"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn values_met_in_the_field() {
        for (text, bytes, printed) in [
            ("1500m", 2, "1500m"),
            ("0.1Gi", 107_374_183, "107374182400m"),
            ("1e9", 1_000_000_000, "1e9"),
            ("128974848000m", 128_974_848, "128974848"),
            ("128974848", 128_974_848, "128974848"),
            ("129e6", 129_000_000, "129e6"),
            ("129M", 129_000_000, "129M"),
            ("123Mi", 128_974_848, "123Mi"),
            ("1024Mi", 1 << 30, "1Gi"),
            ("1E", 1_000_000_000_000_000_000, "1E"),
            ("1E3", 1000, "1e3"),
            ("0.5", 1, "500m"),
            ("1.", 1, "1"),
            (".5", 1, "500m"),
            ("-1.5Ki", -1536, "-1536"),
            ("+5Mi", 5 << 20, "5Mi"),
            ("100Ei", i64::MAX, "9223372036854775807"),
            ("1n", 1, "1n"),
            ("0.1n", 1, "1n"),
            ("0.0000000001Gi", 1, "107374183n"),
            ("1023Ki", 1023 << 10, "1023Ki"),
            ("512", 512, "512"),
            ("0Gi", 0, "0"),
            ("1000E", i64::MAX, "1000E"),
        ] {
            assert_eq!(parsed(text).ceil(), bytes, "{text}");
            assert_eq!(parsed(text).to_string(), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity() {
        for text in ["", "1 Gi", "1GiB", "1gi", "1KI", "abc", "1.2.3", "--1", "1e", "1e1.5", "0x10", "1_000", "Ei", "1e40"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn sums_are_rounded_once() {
        let half = parsed("500m");
        assert_eq!((half + half).ceil(), 1);
        assert_eq!(half.ceil() + half.ceil(), 2);
    }

    proptest! {
        #[test]
        fn printing_loses_nothing(sign in "[+-]?", int in "[0-9]{1,12}", frac in "(\\.[0-9]{0,12})?",
                                  suffix in "(n|u|m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]|E-[0-9])?") {
            let quantity = parsed(&format!("{sign}{int}{frac}{suffix}"));
            let printed = quantity.to_string();
            let again = parsed(&printed);
            prop_assert_eq!(again, quantity);
            prop_assert_eq!(again.to_string(), printed);
        }

        #[test]
        fn whole_bytes_round_away_from_zero(nanos in any::<i64>()) {
            let quantity = Quantity { nanos: i128::from(nanos), format: Format::Decimal };
            let exact = nanos as f64 / 1e9;
            let ceil = quantity.ceil() as f64;
            prop_assert!(ceil.abs() >= exact.abs() && ceil.abs() - exact.abs() < 1.0);
        }

        #[test]
        fn addition_is_exact(a in any::<i64>(), b in any::<i64>()) {
            let (qa, qb) = (Quantity::new(a, Format::Binary), Quantity::new(b, Format::Binary));
            prop_assert_eq!((qa + qb - qb).nanos(), qa.nanos());
            prop_assert_eq!((qa + qb).nanos(), (i128::from(a) + i128::from(b)) * NANOS_PER_UNIT);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                prop_assert_eq!(parsed(&quantity.to_string()), quantity);
            }
        }
    }
}
