//! `highwater list`: the catalogue.

use super::{Exit, print, print_json};
use crate::lab;
use comfy_table::Table;

/// Prints every lab with its title and arms.
pub fn run(json: bool) -> anyhow::Result<Exit> {
    let labs = lab::catalogue().map(|files| lab::load(&files)).collect::<Result<Vec<_>, _>>();
    let labs = labs.map_err(|problems| Exit::Failed.because(format!("a lab of the catalogue is wrong:\n{problems}")))?;
    if json {
        let list: Vec<_> = labs.iter().map(|l| serde_json::json!({"name": l.name, "title": l.title, "arms": names(l)})).collect();
        return print_json(&list);
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(["LAB", "TITLE", "ARMS"]);
    for lab in &labs {
        table.add_row([lab.name.clone(), lab.title.clone(), names(lab).join(", ")]);
    }
    print(table.trim_fmt())
}

fn names(lab: &lab::Lab) -> Vec<String> {
    lab.arms.iter().map(|a| a.name.clone()).collect()
}
