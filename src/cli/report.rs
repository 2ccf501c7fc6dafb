//! `highwater report RUN`: studies an old run again, from its files only.

use super::{Exit, input, print, print_json, studied};
use crate::record::RunDir;
use camino::Utf8Path;

/// Writes `result.json` and `report.html` of a run anew and prints its table.
pub fn run(path: &Utf8Path, json: bool) -> anyhow::Result<Exit> {
    let run = RunDir::open(path).map_err(|e| Exit::BadInput.because(e))?;
    let lab = input::recorded(&run)?;
    let studied = studied::study(&run, &lab)?;
    run.write_json("result.json", &studied.result)?;
    run.write("report.html", studied.html()?.as_bytes())?;
    if json {
        print_json(&serde_json::json!({"run": run.path(), "result": studied.result}))?;
    } else {
        print(studied.terminal())?;
        print(format!("\nreport  {}", run.file("report.html")))?;
    }
    Ok(studied.exit())
}
