//! Settings of a workload: `--name=value`, each used once, nothing unknown.

use crate::units::Quantity;
use std::collections::BTreeMap;
use std::time::Duration;

/// A wrong argument, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{workload}: {problem}")]
pub struct ArgsError {
    workload: String,
    problem: String,
}

/// The settings that were given and not yet asked for.
#[derive(Debug)]
pub struct Args {
    workload: String,
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Args {
    /// Splits the arguments.
    ///
    /// # Errors
    /// An argument that is not `--name=value`, or one that is given twice.
    pub fn new(workload: &str, arguments: &[String]) -> Result<Args, ArgsError> {
        let mut args = Args { workload: workload.to_owned(), given: BTreeMap::new(), known: Vec::new() };
        for argument in arguments {
            let Some((name, value)) = argument.strip_prefix("--").and_then(|rest| rest.split_once('=')) else {
                return Err(args.error(format!("{argument:?} is not of the form --name=value")));
            };
            if args.given.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(args.error(format!("--{name} is given twice")));
            }
        }
        Ok(args)
    }

    fn error(&self, problem: String) -> ArgsError {
        ArgsError { workload: self.workload.clone(), problem }
    }

    fn parsed<T>(
        &mut self,
        name: &'static str,
        right: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ArgsError> {
        self.known.push(name);
        let Some(value) = self.given.remove(name) else { return Ok(None) };
        match parse(&value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(self.error(format!("--{name}={value} is not {right}"))),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// An empty one.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, ArgsError> {
        self.parsed(name, "a text of at least one character", |value| (!value.is_empty()).then(|| value.to_owned()))
    }

    /// A text that must be given.
    ///
    /// # Errors
    /// As [`Args::text`], or absent.
    pub fn required_text(&mut self, name: &'static str) -> Result<String, ArgsError> {
        self.text(name)?.ok_or_else(|| self.error(format!("--{name}=TEXT is missing")))
    }

    /// A size in bytes, as a Kubernetes quantity.
    ///
    /// # Errors
    /// Not a quantity, or a negative one.
    pub fn size(&mut self, name: &'static str) -> Result<Option<usize>, ArgsError> {
        self.parsed(name, "a size such as 512Mi", |value| usize::try_from(value.parse::<Quantity>().ok()?.ceil()).ok())
    }

    /// A size that must be given.
    ///
    /// # Errors
    /// As [`Args::size`], or absent.
    pub fn required_size(&mut self, name: &'static str) -> Result<usize, ArgsError> {
        self.size(name)?.ok_or_else(|| self.error(format!("--{name}=SIZE is missing, for example --{name}=512Mi")))
    }

    /// A whole number.
    ///
    /// # Errors
    /// Not a number, or below `least`.
    pub fn number(&mut self, name: &'static str, least: u64) -> Result<Option<u64>, ArgsError> {
        self.parsed(name, &format!("a whole number of at least {least}"), |value| {
            value.parse().ok().filter(|number| *number >= least)
        })
    }

    /// A share: more than 0, at most 1.
    ///
    /// # Errors
    /// Outside of it, or not a decimal number.
    pub fn share(&mut self, name: &'static str) -> Result<Option<f64>, ArgsError> {
        self.parsed(name, "a share above 0 and up to 1", |value| value.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0))
    }

    /// A duration: a whole number with `ns`, `us`, `ms`, `s`, `m` or `h`.
    ///
    /// # Errors
    /// Another form.
    pub fn duration(&mut self, name: &'static str) -> Result<Option<Duration>, ArgsError> {
        self.parsed(name, "a duration such as 500ms, 10s or 5m", parse_duration)
    }

    /// One of some words; the first when it is not given.
    ///
    /// # Errors
    /// Another word.
    pub fn word(&mut self, name: &'static str, words: &[&'static str]) -> Result<&'static str, ArgsError> {
        let right = format!("one of {}", words.join(", "));
        let found = self.parsed(name, &right, |value| words.iter().find(|word| **word == value).copied())?;
        Ok(found.unwrap_or(words[0]))
    }

    /// Every setting has been asked for.
    ///
    /// # Errors
    /// One that has not is unknown.
    pub fn finish(self) -> Result<(), ArgsError> {
        match self.given.keys().next() {
            None => Ok(()),
            Some(name) if self.known.is_empty() => Err(self.error(format!("--{name} is unknown: it takes no settings"))),
            Some(name) => Err(self.error(format!("--{name} is unknown; the settings are --{}", self.known.join(", --")))),
        }
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..unit_at].parse().ok()?;
    let nanos = match &text[unit_at..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    Some(Duration::from_nanos(number.checked_mul(nanos)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Result<Args, ArgsError> {
        Args::new("anon", &list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn right_ones_are_read() {
        let mut a = args(&["--size=1.5Mi", "--every=250ms", "--pattern=cold", "--share=0.5", "--count=3"]).unwrap();
        assert_eq!(a.size("size"), Ok(Some(3 << 19)));
        assert_eq!(a.duration("every"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(a.word("pattern", &["hot", "cold"]), Ok("cold"));
        assert_eq!(a.share("share"), Ok(Some(0.5)));
        assert_eq!(a.number("count", 1), Ok(Some(3)));
        assert_eq!(a.text("file"), Ok(None));
        a.finish().unwrap();
    }

    #[test]
    fn wrong_ones_say_what_is_right() {
        let say = |e: ArgsError| e.to_string();
        assert_eq!(say(args(&["size=1Mi"]).unwrap_err()), r#"anon: "size=1Mi" is not of the form --name=value"#);
        assert_eq!(say(args(&["--a=1", "--a=2"]).unwrap_err()), "anon: --a is given twice");
        assert_eq!(say(args(&["--size=12Q"]).unwrap().size("size").unwrap_err()), "anon: --size=12Q is not a size such as 512Mi");
        assert_eq!(say(args(&["--size=-1"]).unwrap().size("size").unwrap_err()), "anon: --size=-1 is not a size such as 512Mi");
        assert_eq!(
            say(args(&[]).unwrap().required_size("size").unwrap_err()),
            "anon: --size=SIZE is missing, for example --size=512Mi"
        );
        assert_eq!(
            say(args(&["--t=5"]).unwrap().duration("t").unwrap_err()),
            "anon: --t=5 is not a duration such as 500ms, 10s or 5m"
        );
        assert_eq!(
            say(args(&["--s=1.01"]).unwrap().share("s").unwrap_err()),
            "anon: --s=1.01 is not a share above 0 and up to 1"
        );
        let mut unknown = args(&["--sice=1Mi"]).unwrap();
        unknown.size("size").unwrap();
        assert_eq!(say(unknown.finish().unwrap_err()), "anon: --sice is unknown; the settings are --size");
    }
}
