//! Formats the report as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use crate::aims::{Aim, Ratio};
use crate::cells::median;
use crate::edits::{AIM_MS, Edited, Outcome};
use crate::report::{Report, Row};
use crate::{history, hostile, idle, lists, pipelines, ruled_lists, runtime};

/// Returns the whole report as text.
pub fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "\n{} cores, {}, Linux {}. Load, upstream and what is between them share the cores.\n",
        machine.cores, machine.processor, machine.kernel
    );
    if let Some(plugins) = &report.plugins {
        text += &plugins_text(plugins);
    }
    if let Some(edits) = &report.edits {
        text += &edits_text(edits);
    }
    text += &report.lists.as_ref().map(lists_text).unwrap_or_default();
    text += &report.ruled_lists.as_ref().map(ruled_lists_text).unwrap_or_default();
    text += &report.hostile.as_ref().map(hostile_text).unwrap_or_default();
    text += &report.idle.as_ref().map(idle_text).unwrap_or_default();
    text += &report.history.as_ref().map(history_text).unwrap_or_default();
    text += &report.pipelines.as_ref().map(pipelines_text).unwrap_or_default();
    if !report.rows.is_empty() {
        text += &matrix_text(report);
    }
    text
}

fn plugins_text(plugins: &runtime::Outcome) -> String {
    let mut calls = table(["", "bytes", "p50", "p99"]);
    for row in &plugins.calls {
        calls.add_row([row.what.clone(), row.bytes.to_string(), whole(row.p50_us), whole(row.p99_us)]);
    }
    let mut rates = table(["workers of a Module", "callers", "calls/s"]);
    for (workers, callers, rate) in &plugins.throughput {
        rates.add_row([workers.to_string(), callers.to_string(), whole(*rate)]);
    }
    let aims = aims_table(&plugins.aims);
    format!(
        "\nPlugins through the pool, in the sandbox, one call at a time; times in microseconds\n{calls}\n{rates}\n{aims}\n"
    )
}

fn aims_table(aims: &[Aim]) -> Table {
    let mut table = table(["", "found", "aim"]);
    for aim in aims {
        let (sign, verdict) = signs(aim.at_least, aim.is_met());
        table.add_row([aim.what.clone(), figure(aim.found), format!("{sign} {} {verdict}", figure(aim.aim))]);
    }
    table
}

fn lists_text(lists: &lists::Outcome) -> String {
    let mut rows = table(["", "connections", "p50", "p99", "pages/s", "CPU a page"]);
    for row in &lists.rows {
        let times = [row.p50_us, row.p99_us, row.pages_per_second, row.cpu_us_per_page].map(whole);
        rows.add_row([row.system.to_owned(), row.connections.to_string()].into_iter().chain(times));
    }
    let aims = aims_table(&lists.aims);
    format!(
        "\nA list of 1,000 tools of 20 upstreams, {} KB in 5 pages; times in microseconds\n{rows}\n{aims}\n",
        lists.bytes / 1000
    )
}

fn ruled_lists_text(lists: &ruled_lists::Outcome) -> String {
    let mut rows = table(["calls of others, beside lists", "p50", "p99", "calls/s"]);
    for row in &lists.rows {
        let times = [row.p50_us, row.p99_us, row.calls_per_second].map(whole);
        rows.add_row([row.what.to_owned()].into_iter().chain(times));
    }
    let aims = aims_table(&lists.aims);
    format!(
        "\n{} tools, {} rules, clients in {} groups; times in microseconds\n{rows}\n{aims}\n",
        ruled_lists::TOOLS,
        ruled_lists::RULES,
        ruled_lists::GROUPS
    )
}

fn hostile_text(hostile: &hostile::Outcome) -> String {
    let mut rows = table(["calls of the good upstream", "p50", "p99", "calls/s"]);
    for row in &hostile.rows {
        let times = [row.p50_us, row.p99_us, row.calls_per_second].map(whole);
        rows.add_row([row.what.to_owned()].into_iter().chain(times));
    }
    let aims = aims_table(&hostile.aims);
    format!("\n16 connections, 1 KB, alone and beside a hostile upstream; times in microseconds\n{rows}\n{aims}\n")
}

fn history_text(history: &history::Outcome) -> String {
    let mut rows = table(["pages", "p50, in ms", "longest, in ms"]);
    for row in &history.rows {
        rows.add_row([row.pages.to_owned(), format!("{:.1}", row.p50_ms), format!("{:.1}", row.longest_ms)]);
    }
    let aims = aims_table(&history.aims);
    format!("\nPages of a history of {} calls in SQLite\n{rows}\n{aims}\n", history::ROWS)
}

fn idle_text(idle: &idle::Outcome) -> String {
    let mut rows = table(["the gateway's memory, in MB", "before", "with all streams", "when they are closed"]);
    let memory = [idle.before_mb, idle.after_mb, idle.closed_mb].map(whole);
    rows.add_row([String::new()].into_iter().chain(memory));
    let aims = aims_table(&idle.aims);
    format!("\n{} streams on which nothing happens\n{rows}\n{aims}\n", idle::STREAMS)
}

fn pipelines_text(pipelines: &pipelines::Outcome) -> String {
    let mut rows = table(["", "p50", "p99", "calls/s"]);
    for row in &pipelines.rows {
        let times = [row.p50_us, row.p99_us, row.calls_per_second].map(whole);
        rows.add_row([row.what.to_owned()].into_iter().chain(times));
    }
    let aims = aims_table(&pipelines.aims);
    format!("\nPipelines, 1 connection, 1 KB; times in microseconds\n{rows}\n{aims}\n")
}

fn edits_text(edits: &Outcome) -> String {
    let lost: usize = edits.lost.values().sum();
    format!(
        "\nEdits under load: 50 calls a second for {} s, one of ten edits broken; times in milliseconds\n\
         {} calls, {lost} lost, {} answered as before an edit that had been seen\n{}\n",
        edits.seconds,
        edits.calls,
        edits.stale,
        edits_table(edits)
    )
}

fn edits_table(edits: &Outcome) -> Table {
    let mut table = table(["", "edits", "seen", "p50", "max", "aim"]);
    for (edited, label) in [(Edited::PluginFile, "the plugin's file"), (Edited::Chain, "the chain")] {
        let made: Vec<_> = edits.edits.iter().filter(|edit| edit.edited == edited).collect();
        let after: Vec<f64> = made.iter().filter_map(|edit| edit.after_ms).collect();
        let max = after.iter().copied().max_by(f64::total_cmp);
        let verdict = if max.is_some_and(|max| max <= AIM_MS) { "met" } else { "missed" };
        table.add_row([
            label.to_owned(),
            made.len().to_string(),
            after.len().to_string(),
            median(after.iter().copied()).map_or_else(dash, whole),
            max.map_or_else(dash, whole),
            format!("<= {AIM_MS} {verdict}"),
        ]);
    }
    table
}

fn matrix_text(report: &Report) -> String {
    let mut text = format!(
        "\nMedians of {} rounds of {} s each; times in microseconds. CPU is that of the processes in between.\n",
        report.rounds, report.slice_seconds
    );
    let mut rest = report.rows.as_slice();
    while let Some(first) = rest.first() {
        let group = rest.iter().take_while(|row| (row.era, row.load) == (first.era, first.load)).count();
        let (rows, others) = rest.split_at(group);
        let plural = if first.load.connections == 1 { "" } else { "s" };
        let (era, load) = (first.era.word(), first.load);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n{} connection{plural}, {} bytes, {:?}, {era} era",
            load.connections, load.size, load.payload
        );
        let _ = writeln!(text, "{}", rows_table(rows));
        rest = others;
    }
    let _ = writeln!(text, "\nWhat matters");
    let _ = writeln!(text, "{}", ratios_table(&report.ratios));
    let _ = writeln!(text, "* measured elsewhere, where the hop added 33 and 68 us (p50) and took 26 and 79 us (CPU)");
    for (system, why) in &report.missing {
        let _ = writeln!(text, "Not measured: {}: {why}", system.label());
    }
    text
}

fn rows_table(rows: &[Row]) -> Table {
    let mut table = table(["", "p50", "added p50", "p99", "calls/s", "CPU a call", "calls", "failed"]);
    for row in rows {
        table.add_row([
            row.system.label().to_owned(),
            row.p50_us.map_or_else(dash, whole),
            row.added_p50_us.map_or_else(dash, whole),
            row.p99_us.map_or_else(dash, whole),
            whole(row.calls_per_second),
            row.cpu_us_per_call.map_or_else(dash, whole),
            row.calls.to_string(),
            row.errors.to_string(),
        ]);
    }
    table
}

fn ratios_table(ratios: &[Ratio]) -> Table {
    let mut table = table(["", "bytes", "here", "yardstick", "ratio", "aim", "best gateway*"]);
    for ratio in ratios {
        let (sign, verdict) = signs(ratio.at_least, ratio.is_met());
        table.add_row([
            ratio.what.to_owned(),
            ratio.size.to_string(),
            whole(ratio.found),
            whole(ratio.yardstick),
            format!("{:.2}", ratio.ratio),
            format!("{sign} {} {verdict}", ratio.aim),
            ratio.best_elsewhere_us.map_or_else(dash, whole),
        ]);
    }
    table
}

/// Returns the comparison sign of an aim, and whether it was met.
fn signs(at_least: bool, is_met: bool) -> (&'static str, &'static str) {
    (if at_least { ">=" } else { "<=" }, if is_met { "met" } else { "missed" })
}

/// Makes a table whose first column holds words and all others numbers.
fn table<const N: usize>(head: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

/// Formats a figure with more decimals if it is small.
fn figure(figure: f64) -> String {
    if figure < 0.1 { format!("{figure:.4}") } else { format!("{figure:.2}") }
}

fn dash() -> String {
    "-".into()
}
