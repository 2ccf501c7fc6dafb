//! Samples as CSV, one reading a row; a value stands until the next row of the same cgroup, start and metric.

use crate::record::{Frame, Metric};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The columns. `start` is 1 for a container's first one; `value` is in bytes, counts, or microseconds for metrics ending in `Us`.
pub const HEAD: &str = "arm,seconds,cgroup,start,metric,value\n";

/// Writes the rows of an arm.
///
/// # Errors
/// The first error of the stream, or of the writer.
pub fn rows<E: From<io::Error>>(
    arm: &str,
    samples: impl Iterator<Item = Result<Frame, E>>,
    out: &mut impl Write,
) -> Result<(), E> {
    let (mut watches, mut values) = (BTreeMap::new(), BTreeMap::<(u16, Metric), i64>::new());
    let arm = field(arm);
    for frame in samples {
        match frame? {
            Frame::Watch(watch) => {
                watches.insert(watch.id, format!("{},{}", field(&watch.role.to_string()), watch.attempt + 1));
            }
            Frame::Tick(tick) => {
                for change in &tick.changes {
                    let Some(of) = watches.get(&change.watch) else { continue };
                    let value = values.entry((change.watch, change.metric)).or_default();
                    *value += change.delta;
                    let (whole, rest) = (tick.at_ns / 1_000_000_000, tick.at_ns % 1_000_000_000);
                    let metric = serde_json::to_value(change.metric).unwrap_or_default();
                    writeln!(out, "{arm},{whole}.{rest:09},{of},{},{value}", metric.as_str().unwrap_or_default())?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Quoted where RFC 4180 needs it, and where a spreadsheet would take it for a formula.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@']);
    let quoted = text.contains([',', '"', '\n', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Change, Role, Tick, Watch};

    #[test]
    fn a_row_holds_the_value_and_not_the_difference() {
        let role = Role::Container { pod: "p,\"".into(), container: "c".into() };
        let watch = Frame::Watch(Watch { id: 0, role, cgroup: "/".into(), attempt: 1, unsupported: vec![] });
        let tick =
            |at_ns, delta| Frame::Tick(Tick { at_ns, changes: vec![Change { watch: 0, metric: Metric::MemoryCurrent, delta }] });
        let frames = [watch, tick(1_500_000_000, 100), tick(2_000_000_001, -40)].map(Ok::<_, io::Error>);
        let mut out = Vec::new();
        rows("=a", frames.into_iter(), &mut out).unwrap();
        let want = "'=a,1.500000000,\"pod/p,\"\"/c\",2,memoryCurrent,100\n'=a,2.000000001,\"pod/p,\"\"/c\",2,memoryCurrent,60\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
