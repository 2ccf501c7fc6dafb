//! `highwater export RUN`: a run for other tools.

use super::{Exit, input, print, studied};
use crate::record::{Event, RunDir, RunError};
use crate::report::export::{self, OpenMetrics};
use crate::study::scrape;
use camino::Utf8PathBuf;
use std::io::Write;

/// What to write.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run directory.
    run: Utf8PathBuf,
    /// csv: a row per reading; openmetrics: for `promtool tsdb create-blocks-from openmetrics`; grafana: a dashboard over those names;
    /// markdown: a summary for a pull request; junit: the expectations for CI.
    #[arg(long, value_enum)]
    format: Format,
    /// The file to write; stdout without.
    #[arg(long, value_name = "FILE")]
    out: Option<Utf8PathBuf>,
    /// Only the samples of this arm; may be given several times.
    #[arg(long = "arm", value_name = "ARM")]
    arms: Vec<String>,
    /// Virtual time between scrapes (openmetrics).
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Unix time at which each arm begins (openmetrics).
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=253_402_300_799))]
    start: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Csv,
    Openmetrics,
    Grafana,
    Markdown,
    Junit,
}

/// Writes the run.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    if json {
        return Err(Exit::BadInput.because("export has a format of its own: --json does not go with it"));
    }
    let run = RunDir::open(&args.run).map_err(|e| Exit::BadInput.because(e))?;
    let text = match args.format {
        Format::Csv => csv(&run, args)?,
        Format::Openmetrics => openmetrics(&run, args)?,
        Format::Grafana => serde_json::to_string_pretty(&export::dashboard())?,
        Format::Markdown | Format::Junit => {
            let lab = input::recorded(&run)?;
            let result = studied::study(&run, &lab)?.result;
            if args.format == Format::Junit { export::junit(&result) } else { export::markdown(&lab, &result) }
        }
    };
    match &args.out {
        Some(path) => {
            fs_err::write(path, text).map_err(|e| Exit::BadInput.because(e))?;
            Ok(Exit::AsExpected)
        }
        None => print(text),
    }
}

/// The arms that have samples.
fn arms(run: &RunDir, args: &Args) -> anyhow::Result<Vec<String>> {
    let lab = input::recorded(run)?;
    let chosen = input::arms(&lab, &args.arms)?.into_iter().map(|arm| arm.name.clone());
    Ok(chosen.filter(|arm| run.file(&format!("samples/{arm}.bin")).is_file()).collect())
}

fn csv(run: &RunDir, args: &Args) -> anyhow::Result<String> {
    let mut out = Vec::new();
    out.write_all(export::HEAD.as_bytes())?;
    for arm in arms(run, args)? {
        let samples = run.samples(&arm)?.map(|frame| frame.map_err(anyhow::Error::from));
        export::rows(&arm, samples, &mut out)?;
    }
    Ok(String::from_utf8(out)?)
}

fn openmetrics(run: &RunDir, args: &Args) -> anyhow::Result<String> {
    let step_ns = args.every * 1_000_000;
    let mut out = OpenMetrics::starting_at(args.start * 1_000_000_000);
    for arm in arms(run, args)? {
        let plan = run.plan(&arm)?;
        let events: Vec<Event> = run.events(&arm)?.collect::<Result<_, _>>()?;
        scrape::<RunError>(step_ns, &events, run.samples(&arm)?, |seen| out.add(&arm, &plan, seen))?;
    }
    Ok(out.finish())
}
