//! `highwater sweep LAB`: one field set to one value after the other, and where it turns from harm to help.

use super::run::{How, perform};
use super::{Exit, input};
use crate::lab::{self, Amount, Lab, MetricRef, Sweep};

/// Arguments of `highwater sweep`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A name of the catalogue, a directory, or a file with all documents.
    lab: String,
    /// The field and its values; by default what the lab says.
    #[arg(long, value_name = "PATH=VALUE,VALUE…")]
    set: Option<String>,
    /// The arm whose field is set; by default what the lab says.
    #[arg(long, value_name = "ARM")]
    arm: Option<String>,
    /// The arm that the others are compared with; by default what the lab says, else its baseline.
    #[arg(long, value_name = "ARM")]
    against: Option<String>,
    /// The figure that is compared, as in an expectation: `outage`, or `{name: outage, pod: server, phase: burst}`.
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    #[command(flatten)]
    how: How,
}

/// Runs the swept lab.
pub fn run(arguments: Arguments, json: bool) -> anyhow::Result<Exit> {
    let bad = |problems: crate::yaml::Problems| Exit::BadInput.because(problems);
    let files = input::files(&arguments.lab)?;
    let lab = lab::load(&files).map_err(bad)?;
    let sweep = chosen(&arguments, &lab)?;
    let swept = lab::load(&lab::swept(&files, &sweep).map_err(bad)?).map_err(bad)?;
    perform(&swept, &[], 1, arguments.how, json)
}

/// What the arguments say, and the lab where they say nothing.
fn chosen(arguments: &Arguments, lab: &Lab) -> anyhow::Result<Sweep> {
    let own = lab.sweep.as_ref();
    let missing = |what: &str| Exit::BadInput.because(format!("{} declares no sweep: give {what}", lab.name));
    let (set, values) = match (&arguments.set, own) {
        (Some(text), _) => {
            let (path, values) =
                text.split_once('=').ok_or_else(|| Exit::BadInput.because(format!("--set {text}: write PATH=VALUE,VALUE…")))?;
            (path.to_owned(), values.split(',').map(|value| Amount(value.to_owned())).collect())
        }
        (None, Some(own)) => (own.set.clone(), own.values.clone()),
        (None, None) => return Err(missing("--set PATH=VALUE,VALUE…")),
    };
    let metric = match (&arguments.metric, own) {
        (Some(text), _) => metric(text)?,
        (None, Some(own)) => own.metric.clone(),
        (None, None) => return Err(missing("--metric METRIC")),
    };
    let arm = arguments.arm.clone().or_else(|| own.map(|own| own.arm.clone())).ok_or_else(|| missing("--arm ARM"))?;
    let against = arguments.against.clone().or_else(|| own.map(|own| own.against.clone()));
    Ok(Sweep { arm, set, values, metric, against: against.unwrap_or_else(|| lab.baseline.clone()) })
}

fn metric(text: &str) -> anyhow::Result<MetricRef> {
    let text = if text.trim_start().starts_with('{') { text.to_owned() } else { format!("{{name: {text}}}") };
    let node = crate::yaml::read("--metric", &text).map_err(|problems| Exit::BadInput.because(problems))?;
    node.decode().map_err(|problems| Exit::BadInput.because(problems))
}
