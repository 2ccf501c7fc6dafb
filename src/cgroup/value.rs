//! Single values of control files: a number, or "max".

use std::fmt;

/// A limit as a control file shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Bytes (or tasks, for pids.max).
    At(u64),
    /// No limit. Larger than every number.
    Max,
}

/// A control file's text is neither a number nor "max".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number nor \"max\"")]
pub struct MalformedValue(pub String);

impl std::str::FromStr for Limit {
    type Err = MalformedValue;

    fn from_str(text: &str) -> Result<Limit, MalformedValue> {
        match text.trim_end_matches('\n') {
            "max" => Ok(Limit::Max),
            digits => parse_number(digits.as_bytes()).map(Limit::At).ok_or_else(|| MalformedValue(text.to_owned())),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::At(number) => write!(f, "{number}"),
            Limit::Max => f.write_str("max"),
        }
    }
}

/// A whole decimal number, which may end with a newline. None for anything else, a sign or an overflow included.
pub fn parse_number(text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"\n").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn max_is_a_value_and_nothing_is_an_error() {
        assert_eq!("max\n".parse(), Ok(Limit::Max));
        assert_eq!("4096\n".parse(), Ok(Limit::At(4096)));
        assert!(Limit::At(u64::MAX) < Limit::Max);
        for bad in ["", "\n", "-1", "+1", "1 ", "0x10", "18446744073709551616"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_agree_with_the_standard_library(text in "[0-9]{0,22}|.{0,8}") {
            let expected = text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
            prop_assert_eq!(parse_number(text.as_bytes()), expected);
        }

        #[test]
        fn a_limit_prints_as_it_was_read(number in any::<u64>()) {
            prop_assert_eq!(Limit::At(number).to_string().parse(), Ok(Limit::At(number)));
        }
    }
}
