//! `highwater inventory`: the GPUs of a run, of a Prometheus query's answer or of scrapes of `/metrics`, over time.

use super::plan::manifests::texts;
use super::{Exit, input, print, print_json};
use crate::lab::Unit;
use crate::record::{Request, RunDir};
use crate::study::inventory::{FULL, GpuUse, Inventory, LITTLE, QUERY, Samples, Slice, Used, inventory, read, time};
use crate::study::say;
use crate::yaml::Problems;
use camino::Utf8Path;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;
use std::sync::LazyLock;

static AFTER: LazyLock<String> = LazyLock::new(|| {
    format!(
        r##"Each FILE is a run directory, the answer of a Prometheus range query,

  curl -sG "$PROMETHEUS/api/v1/query_range" -d start=$(date +%s -d -7days) -d end=$(date +%s) -d step=300 --data-urlencode \
    'query={QUERY}' > fleet.json

or scrapes of dcgm-exporter and of the servers themselves, with a line before each that says when and whose:

  while sleep 15; do echo "# scraped $(date +%s) shop/chat-0"; curl -s http://chat-0:8000/metrics; done | tee -a chat-0.txt

Devices and servers are matched by namespace and pod. Where Prometheus renamed the exporter's labels (exported_pod), those count.

Exit codes: 0 no device raises a question; 1 some do; 2 bad input; 4 too little was seen to ask."##
    )
});

/// What to look at.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER.as_str())]
pub struct Args {
    /// Run directories and files of samples; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

/// Reads, looks, prints.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let (runs, files): (Vec<String>, Vec<String>) =
        args.files.iter().cloned().partition(|file| Utf8Path::new(file).join("lab.yaml").is_file());
    let mut problems = Problems::default();
    let texts = texts(&files, &mut problems);
    let samples = problems.keep(read(&texts)).unwrap_or_default();
    let mut samples = problems.or(samples).map_err(|problems| Exit::BadInput.because(problems))?;
    for run in &runs {
        add(&mut samples, &input::one(Utf8Path::new(run))?)?;
    }
    let found = inventory(&samples);
    if json {
        print_json(&found)?
    } else {
        print(text(&found))?
    };
    Ok(match &found.gpus {
        gpus if gpus.iter().any(|gpu| gpu.question.id.is_open()) => Exit::Failed,
        gpus if gpus.iter().any(|gpu| gpu.question.id.is_informed()) => Exit::AsExpected,
        _ => Exit::Uninformative,
    })
}

fn add(samples: &mut Samples, run: &RunDir) -> anyhow::Result<()> {
    for arm in input::recorded(run)?.arms.iter().filter(|arm| run.file(&format!("samples/{}.bin", arm.name)).is_file()) {
        let requests: Vec<Request> = run.requests(&arm.name)?.collect::<Result<_, _>>()?;
        samples.add_arm(&run.order(&arm.name)?, &run.reports(&arm.name)?, &requests);
    }
    Ok(())
}

fn text(found: &Inventory) -> String {
    if found.gpus.is_empty() {
        return "No device and no server is in these samples: `highwater inventory --help` says what to ask Prometheus for.\n"
            .to_owned();
    }
    let mut out = table(found);
    let _ = writeln!(
        out,
        "USE is the percent of time in which any kernel ran: low means little use, {FULL} % does not mean much work. QUEUE and TTFT are of the \
         first, middle and last third. A part of the course: use from ▁ to █, the queue likewise up to its own most.",
    );
    for gpu in &found.gpus {
        let _ = write!(out, "\n{}\n  {}\n", name(gpu), gpu.question.says);
        if gpu.question.id.is_informed() {
            let _ = writeln!(out, "  use    {}", bars(gpu, |slice| slice.used, 100.0));
        }
        if let Some(queue) = gpu.queue {
            let _ = writeln!(out, "  queue  {}  most {:.0}", bars(gpu, |slice| slice.waiting, queue.most), queue.most);
        }
        for signal in &gpu.misleading {
            let _ = writeln!(
                out,
                "  misleading: {}. By it alone: {}. Wrong, since {}.",
                signal.reads, signal.wrong_action, signal.because
            );
        }
    }
    if found.others > 0 {
        let _ = write!(out, "\nLeft out: {} series of other metrics.\n", found.others);
    }
    out
}

fn name(gpu: &GpuUse) -> String {
    let id = gpu.gpu.id.as_deref().unwrap_or("GPU not seen");
    let part = gpu.gpu.instance.as_ref().or(gpu.gpu.replica.as_ref()).map(|part| format!(" {part}")).unwrap_or_default();
    let host = gpu.gpu.host.as_ref().map(|host| format!("{host} ")).unwrap_or_default();
    format!("{host}{id}{part}, {}", gpu.gpu.pod.as_deref().unwrap_or("no pod"))
}

fn table(found: &Inventory) -> String {
    let under = format!("UNDER {LITTLE} %");
    let mut table = Table::new();
    let header = ["POD", "GPU", "USE", "PEAK", &under, "LONGEST", "MEMORY", "QUEUE", "WAITING", "TTFT", "QUESTION"];
    table.load_style(presets::NOTHING).set_header(header);
    for gpu in &found.gpus {
        let used = |of: fn(&Used) -> String| gpu.used.as_ref().map_or_else(dash, of);
        let thirds = |each: [String; 3]| each.join(" ");
        table.add_row([
            gpu.gpu.pod.clone().unwrap_or_else(dash),
            gpu.gpu.model.clone().or_else(|| gpu.gpu.id.clone()).unwrap_or_else(dash),
            used(|used| format!("{:.0} %", used.average)),
            used(|used| format!("{:.0} %", used.peak)),
            used(|used| format!("{:.0} %", used.little)),
            used(|used| if used.little_longest_ms > 0 { time(used.little_longest_ms) } else { dash() }),
            gpu.memory.map_or_else(dash, |[_, most]| format!("{most:.0} %")),
            gpu.queue.map_or_else(dash, |queue| thirds(queue.thirds.map(|n| format!("{n:.0}")))),
            gpu.queue.map_or_else(dash, |queue| format!("{:.0} %", queue.waiting)),
            gpu.ttft_ms.map_or_else(dash, |each| thirds(each.map(|ms| ms.map_or_else(dash, |ms| say(ms * 1e6, Unit::Time))))),
            gpu.question.id.name().to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(8) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

fn dash() -> String {
    "-".to_owned()
}

fn bars(gpu: &GpuUse, value: impl Fn(&Slice) -> Option<f64>, full: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: f64| BARS[((value / full.max(f64::MIN_POSITIVE) * 8.0) as usize).min(7)];
    gpu.course.iter().map(|slice| value(slice).map_or(' ', bar)).collect()
}
