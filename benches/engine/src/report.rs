//! What was measured, as a table and as data, and what is demanded of it. Owns the demands; must never measure.

use serde::Serialize;

use crate::measure::{Rounds, median, ratio};
use crate::workload::Workload;

/// One engine on one workload.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// The engine.
    pub engine: String,
    /// The workload's letter.
    pub workload: String,
    /// Microseconds of processor time a simulation, median.
    pub microseconds: f64,
    /// Its time against a fresh tokio runtime's: median of the quotients, round by round.
    pub of_fresh_tokio: f64,
    /// Simulations a second and core.
    pub per_second: f64,
}

/// A figure and the bound that it must keep.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Demand {
    /// What.
    pub what: String,
    /// What was measured.
    pub figure: f64,
    /// `at most` or `at least`.
    pub sense: &'static str,
    /// The bound.
    pub bound: f64,
    /// What would be better still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretch: Option<f64>,
    /// Whether the bound is kept.
    pub kept: bool,
}

impl Demand {
    fn at_most(what: &str, figure: f64, bound: f64, stretch: Option<f64>) -> Self {
        Self { what: what.to_owned(), figure, sense: "at most", bound, stretch, kept: figure <= bound }
    }

    fn at_least(what: &str, figure: f64, bound: f64) -> Self {
        Self { what: what.to_owned(), figure, sense: "at least", bound, stretch: None, kept: figure >= bound }
    }
}

/// Everything that one run of the program found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Rounds behind each median.
    pub rounds: usize,
    /// Whether the thread stayed on one processor.
    pub pinned: bool,
    /// Scheduling decisions of one simulation of ours, by workload.
    pub ticks: Vec<(String, u32)>,
    /// The table.
    pub cells: Vec<Cell>,
    /// What is demanded.
    pub demands: Vec<Demand>,
}

/// Positions of the engines that the demands speak of.
pub struct Roles {
    /// Ours, as a campaign uses it.
    pub ours: usize,
    /// Ours, keeping a recording.
    pub recording: usize,
    /// Ours, each simulation told twice.
    pub audit: usize,
    /// What the others are measured against.
    pub tokio: usize,
    /// shuttle.
    pub shuttle: usize,
}

/// The table's cells of one workload.
pub fn cells(names: &[&str], rounds: &Rounds, tokio: usize) -> Vec<Cell> {
    let figures = |index: usize| rounds.nanoseconds[index].as_deref();
    let base = figures(tokio).unwrap_or_default();
    let cell = |(index, name): (usize, &&str)| {
        let own = figures(index)?;
        let nanoseconds = median(own);
        Some(Cell {
            engine: (*name).to_owned(),
            workload: rounds.workload.name().to_owned(),
            microseconds: nanoseconds / 1e3,
            of_fresh_tokio: ratio(own, base),
            per_second: 1e9 / nanoseconds,
        })
    };
    names.iter().enumerate().filter_map(cell).collect()
}

/// What is demanded of one workload.
pub fn demands(rounds: &Rounds, roles: &Roles) -> Vec<Demand> {
    let of = |index: usize, to: usize| match (&rounds.nanoseconds[index], &rounds.nanoseconds[to]) {
        (Some(index), Some(to)) => ratio(index, to),
        _ => f64::NAN,
    };
    let ours = rounds.nanoseconds[roles.ours].as_deref().map_or(f64::NAN, median);
    let name = rounds.workload.name();
    let kept = |demands: &mut Vec<Demand>| {
        demands.push(Demand::at_most(&format!("{name}: keeping a recording"), of(roles.recording, roles.ours), 1.05, None));
        demands.push(Demand::at_most(&format!("{name}: telling twice"), of(roles.audit, roles.ours), 2.2, None));
    };
    let mut demands = Vec::new();
    match rounds.workload {
        Workload::E => demands.push(Demand::at_most("E: microseconds to set a trial up and end it", ours / 1e3, 0.5, None)),
        Workload::S => {
            demands.push(Demand::at_most("S: time against fresh tokio", of(roles.ours, roles.tokio), 0.5, Some(0.45)));
            kept(&mut demands);
        }
        Workload::M => {
            demands.push(Demand::at_most("M: time against fresh tokio", of(roles.ours, roles.tokio), 0.9, Some(0.75)));
            demands.push(Demand::at_least("M: times as fast as shuttle-tokio", of(roles.shuttle, roles.ours), 8.0));
            kept(&mut demands);
        }
        Workload::Y => {}
        Workload::T => {
            let simulated: u64 = (0..64).map(|seed| rounds.workload.simulated_ms(seed)).sum();
            let simulated = simulated as f64 / 64.0 * 1e6;
            demands.push(Demand::at_least("T: simulated time by real time", simulated / ours, 100_000.0));
        }
    }
    demands
}

/// Prints the report for people.
pub fn print(report: &Report, names: &[&str]) {
    println!("microseconds of processor time a simulation (time against fresh tokio); medians of {} rounds", report.rounds);
    if !report.pinned {
        println!("the thread could not be bound to one processor");
    }
    print!("{:24}", "");
    for (letter, ticks) in &report.ticks {
        print!("{:>18}", format!("{letter}, {ticks} polls"));
    }
    println!();
    for name in names {
        print!("{name:24}");
        for (letter, _) in &report.ticks {
            let cell = report.cells.iter().find(|cell| cell.engine == *name && cell.workload == *letter);
            let text =
                cell.map_or_else(|| "-".to_owned(), |cell| format!("{:.2} ({:.2})", cell.microseconds, cell.of_fresh_tokio));
            print!("{text:>18}");
        }
        println!();
    }
    println!();
    for demand in &report.demands {
        let mark = if demand.kept { "kept  " } else { "MISSED" };
        let stretch = demand.stretch.map(|stretch| format!(", better {stretch}")).unwrap_or_default();
        println!("{mark} {}: {:.3} ({} {}{stretch})", demand.what, demand.figure, demand.sense, demand.bound);
    }
}
