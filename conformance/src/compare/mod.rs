//! The reference host beside another one: both are given the same sequential workloads, and outcomes, listings, logs and edges are compared. Owns the run and what
//! is counted; must never call a difference explained that no row of the table names.

mod canon;
mod differences;
mod judge;
mod side;
mod workload;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use hostproof_spec::envelope::Exit;
use hostproof_spec::revision::Revision;
use hostproof_spec::wire::HostInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::TextDiff;

pub use canon::{Logs, Names, Record, canonical};
pub use differences::{Extra, Row, Table, TableError};
pub use judge::{Difference, differences};
pub use side::{Played, Seen, Side};
pub use workload::{Step, Workload, draw, fresh_id};

use crate::host::Host;
use crate::host::leftovers::StoresDir;
use crate::run::{Budgets, HostFailure, fresh_store};

/// The revision that both hosts speak.
pub const REVISION: Revision = Revision::R20260806;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The first seed; each workload has the next one.
    pub first: u64,
    /// How many workloads.
    pub workloads: u64,
    /// What is explained.
    pub table: Table,
    /// How long a host is waited for.
    pub budgets: Budgets,
}

/// A kind of difference that a row of the table explains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The row's pattern.
    pub matches: String,
    /// The row's reason.
    pub reason: String,
    /// What it rests on.
    pub basis: String,
    /// Workloads that showed it.
    pub workloads: u64,
    /// The first of them.
    pub first_seed: Option<u64>,
}

/// A kind of difference that nothing explains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unexplained {
    /// The kind.
    pub kind: String,
    /// Workloads that showed it.
    pub workloads: u64,
    /// The first of them.
    pub first_seed: u64,
    /// The first of them in full.
    pub detail: String,
}

/// How often the operations of a verb ended how at both hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agreed {
    /// Accepted or finished.
    pub ok: u64,
    /// Refused, with the same class.
    pub refused: u64,
    /// Not asked, because the agent object was never made.
    pub unbound: u64,
}

/// What a comparison came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// The other host.
    pub host: HostInfo,
    /// Planted bugs of the reference that were active.
    pub planted_bugs: Vec<String>,
    /// The contract revision.
    pub revision: Revision,
    /// The first seed.
    pub first_seed: u64,
    /// Workloads.
    pub workloads: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Workloads in which nothing differed.
    pub equal: u64,
    /// Workloads that were compared to their end; in the others, what came after an explained difference follows from it and says nothing.
    pub to_the_end: u64,
    /// Records that were equal in both logs, without what only the other host writes.
    pub records: u64,
    /// Outcomes that both gave, by verb, in what was compared.
    pub agreed: BTreeMap<String, Agreed>,
    /// Explained kinds, in the order of the table.
    pub explained: Vec<Explained>,
    /// Kinds that nothing explains, the most frequent first.
    pub unexplained: Vec<Unexplained>,
    /// Milliseconds that all of it took.
    pub millis: u64,
}

impl Compared {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match (self.unexplained.is_empty(), self.workloads) {
            (false, _) => Exit::Found,
            (true, 0) => Exit::Inconclusive,
            (true, _) => Exit::Ok,
        }
    }
}

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
pub enum Incomparable {
    /// A host would not start.
    #[error("{who} would not start: {failure}")]
    NotStarted {
        /// Which.
        who: &'static str,
        /// Why.
        failure: HostFailure,
    },
    /// The other host speaks another revision.
    #[error("the other host implements {0}, and workloads of {REVISION} are compared")]
    OtherRevision(Revision),
    /// There is no place for stores.
    #[error("no directory for the stores: {0}")]
    NoStore(#[from] std::io::Error),
}

/// Two hosts with a place for their stores.
pub struct Pair<'h> {
    reference: Side<'h>,
    other: Side<'h>,
    info: HostInfo,
    planted_bugs: Vec<String>,
    stores: StoresDir,
    number: usize,
}

impl<'h> Pair<'h> {
    /// Starts both.
    ///
    /// # Errors
    /// [`Incomparable`].
    pub fn start(
        reference: &'h mut dyn Host,
        other: &'h mut dyn Host,
        budgets: Budgets,
        table: &Table,
    ) -> Result<Self, Incomparable> {
        let stores = StoresDir::new()?;
        let failed = |who| move |failure| Incomparable::NotStarted { who, failure };
        let (reference, own) = Side::start(reference, REVISION, budgets, Vec::new()).map_err(failed("the reference host"))?;
        let (other, info) = Side::start(other, REVISION, budgets, table.extra.clone()).map_err(failed("the other host"))?;
        if info.revision != REVISION {
            return Err(Incomparable::OtherRevision(info.revision));
        }
        Ok(Self { reference, other, info: info.host, planted_bugs: own.planted_bugs, stores, number: 0 })
    }

    /// What both do with a workload.
    ///
    /// # Errors
    /// What the file system says.
    pub fn play(&mut self, workload: &Workload) -> std::io::Result<[Played; 2]> {
        let mut both = [&mut self.reference, &mut self.other].map(Some);
        let mut played = Vec::new();
        for side in both.iter_mut().filter_map(Option::take) {
            self.number += 1;
            let store = fresh_store(self.stores.path(), self.number);
            std::fs::create_dir_all(&store)?;
            let store = std::fs::canonicalize(&store)?;
            played.push(side.play(workload, &store));
            // Leftovers do no harm: the whole directory goes at the end.
            let _ = std::fs::remove_dir_all(store);
        }
        let mut played = played.into_iter();
        Ok([played.next(), played.next()].map(|played| played.expect("both were played")))
    }

    /// Ends both.
    pub fn end(mut self) {
        self.reference.kill();
        self.other.kill();
    }
}

/// Compares the two hosts of a pair. `told` is called after each workload with the number of kinds that nothing explains.
///
/// # Errors
/// [`Incomparable::NoStore`].
pub fn compare(pair: &mut Pair<'_>, comparison: &Comparison, told: &mut dyn FnMut(usize)) -> Result<Compared, Incomparable> {
    let began = Instant::now();
    let table = &comparison.table;
    let mut explained: Vec<(u64, Option<u64>)> = vec![(0, None); table.differences.len()];
    let mut unexplained: BTreeMap<String, Unexplained> = BTreeMap::new();
    let mut compared = Compared {
        host: pair.info.clone(),
        planted_bugs: pair.planted_bugs.clone(),
        revision: REVISION,
        first_seed: comparison.first,
        workloads: 0,
        steps: 0,
        equal: 0,
        to_the_end: 0,
        records: 0,
        agreed: BTreeMap::new(),
        explained: Vec::new(),
        unexplained: Vec::new(),
        millis: 0,
    };
    for seed in comparison.first..comparison.first.saturating_add(comparison.workloads) {
        let workload = draw(seed);
        let both = pair.play(&workload)?;
        let all = differences(&both[0], &both[1]);
        let mut until = workload.steps.len();
        let mut ended = false;
        for difference in &all {
            match table.explains(&difference.kind) {
                Some(row) => {
                    explained[row].0 += 1;
                    explained[row].1.get_or_insert(seed);
                    ended = !table.differences[row].go_on;
                }
                None => {
                    let found = Unexplained {
                        kind: difference.kind.clone(),
                        workloads: 0,
                        first_seed: seed,
                        detail: difference.detail.clone(),
                    };
                    unexplained.entry(difference.kind.clone()).or_insert(found).workloads += 1;
                    ended = true;
                }
            }
            if ended {
                until = difference.step;
                break;
            }
        }
        compared.workloads += 1;
        compared.steps += workload.steps.len() as u64;
        compared.equal += u64::from(all.is_empty());
        compared.to_the_end += u64::from(!ended);
        count(&mut compared, &both[0], until, ended);
        told(unexplained.len());
    }
    compared.explained = table
        .differences
        .iter()
        .zip(explained)
        .map(|(row, (workloads, first_seed))| Explained {
            matches: row.matches.clone(),
            reason: row.reason.clone(),
            basis: row.basis.clone(),
            workloads,
            first_seed,
        })
        .collect();
    compared.unexplained = unexplained.into_values().collect();
    compared.unexplained.sort_by(|one, other| other.workloads.cmp(&one.workloads).then_with(|| one.kind.cmp(&other.kind)));
    compared.millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(compared)
}

/// Counts what was equal before the first difference that ended the comparison.
fn count(compared: &mut Compared, reference: &Played, until: usize, ended: bool) {
    for seen in reference.steps.iter().take(until) {
        let Some(verb) = seen.verb else { continue };
        let agreed = compared.agreed.entry(crate::scenario::word(&verb)).or_default();
        match seen.outcome.as_str() {
            "ok" => agreed.ok += 1,
            "unbound" => agreed.unbound += 1,
            _ => agreed.refused += 1,
        }
    }
    if !ended {
        compared.records += reference.logs.values().map(|records| records.len() as u64).sum::<u64>();
    } else if let Some(seen) = until.checked_sub(1).and_then(|last| reference.steps.get(last)) {
        compared.records += seen.records.values().map(|records| *records as u64).sum::<u64>();
    }
}

/// One workload, told in full: what was asked, what each host made of it, and where their logs differ.
pub struct Shown {
    /// What differs, the earliest first, each with the row that explains it.
    pub differences: Vec<(Difference, Option<Row>)>,
    /// The whole, for people.
    pub text: String,
}

/// Shows one workload.
///
/// # Errors
/// [`Incomparable::NoStore`].
pub fn show(pair: &mut Pair<'_>, seed: u64, table: &Table) -> Result<Shown, Incomparable> {
    let workload = draw(seed);
    let both = pair.play(&workload)?;
    let all = differences(&both[0], &both[1]);
    let mut text = format!("workload {seed}\n");
    for (session, replies) in &workload.script.sessions {
        let _ = writeln!(
            text,
            "  model of {session}: {}",
            replies.iter().map(|reply| format!("{reply:?}")).collect::<Vec<_>>().join(", ")
        );
    }
    for (number, step) in workload.steps.iter().enumerate() {
        let asked = match step {
            Step::Call { bind, operation } => {
                let bind = bind.as_ref().map(|bind| format!("{bind} = ")).unwrap_or_default();
                format!("{bind}{}", serde_json::to_string(operation).unwrap_or_default())
            }
            Step::Stop => "stop, and begin again".to_owned(),
            Step::Kill => "kill, and begin again".to_owned(),
        };
        let _ = writeln!(text, "{number:>3}  {asked}");
        let said = both.each_ref().map(|played| {
            played.steps.get(number).map_or("-".to_owned(), |seen| {
                let rows = seen.rows.as_ref().map(|rows| format!(" [{}]", rows.join("; "))).unwrap_or_default();
                format!("{}{rows}", seen.outcome)
            })
        });
        let _ = match &said {
            [here, there] if here == there => writeln!(text, "     {here}"),
            [here, there] => writeln!(text, "     reference {here}\n     dsh       {there}"),
        };
    }
    let whole = both.each_ref().map(transcript);
    let _ = writeln!(
        text,
        "\n{}",
        TextDiff::from_lines(&whole[0], &whole[1]).unified_diff().context_radius(4).header("reference", "dsh")
    );
    let mut explained = Vec::new();
    for difference in all {
        let row = table.explains(&difference.kind).map(|row| table.differences[row].clone());
        let why = row.as_ref().map_or("NOT EXPLAINED".to_owned(), |row| format!("{} ({})", row.reason, row.basis));
        let _ = writeln!(text, "after step {}: {}\n  {}\n  {why}", difference.step, difference.kind, difference.detail);
        explained.push((difference, row));
    }
    if explained.is_empty() {
        let _ = writeln!(text, "nothing differs");
    }
    Ok(Shown { differences: explained, text })
}

/// The canonical logs and edges of one host as lines.
fn transcript(played: &Played) -> String {
    let mut text = played.failure.as_ref().map(|failure| format!("{failure}\n")).unwrap_or_default();
    for (session, records) in &played.logs {
        let _ = writeln!(text, "log of {session}");
        for record in records {
            let _ = writeln!(text, "  {}", record.value);
        }
    }
    for (session, edges) in &played.edges {
        let _ = writeln!(text, "edges of {session}");
        for edge in edges {
            let _ = writeln!(text, "  {edge}");
        }
    }
    text
}

#[cfg(test)]
mod tests;
