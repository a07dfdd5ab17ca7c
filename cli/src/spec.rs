//! `hostproof spec`: the contract for readers. Owns the layout of its texts; must never hold a rule of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hostproof_spec::coverage::{Citation, Coverage, Kind, coverage};
use hostproof_spec::envelope::Exit;
use hostproof_spec::invariants::INVARIANTS;
use hostproof_spec::model::JUDGES;
use hostproof_spec::register::host_tests::HOST_TESTS;
use hostproof_spec::register::races::{Cover, RACES};
use hostproof_spec::register::{self, AREAS, Strength, requirements};
use hostproof_spec::revision::{self, RULES, Revision};
use serde_json::Value;

use crate::args::SpecCommand;
use crate::data::{Contract, Races, Shown};
use crate::output::{Problem, Report, json_value};

/// Runs one of the `spec` commands.
///
/// # Errors
/// An unknown id is bad use; a scenario of the suite that cannot be read is our own fault.
pub fn run(command: &SpecCommand) -> Result<Report<Value>, Problem> {
    match command {
        SpecCommand::List => list(),
        SpecCommand::Show { id } => show(id),
        SpecCommand::Coverage => covered(),
        SpecCommand::Races => races(),
    }
}

fn list() -> Result<Report<Value>, Problem> {
    let mut text = String::new();
    for area in AREAS {
        let _ = writeln!(text, "{}  {}", area.name, area.title);
        for row in area.rows {
            let revisions: Vec<&str> = row.revisions.iter().map(Revision::name).collect();
            let span =
                if revisions.len() == Revision::ALL.len() { String::new() } else { format!(" [{}]", revisions.join(", ")) };
            let _ = writeln!(text, "  {:<10} {:<6} {}{span}", row.id, row.strength, row.text);
        }
    }
    let _ = writeln!(text, "\nRevisions: {}. Invariants:", Revision::ALL.map(Revision::name).join(", "));
    for invariant in INVARIANTS {
        let _ = writeln!(text, "  {:<22} {}", invariant.name, invariant.title);
    }
    let rows: Vec<_> = requirements().collect();
    let invariants: Vec<&str> = INVARIANTS.iter().map(|invariant| invariant.name).collect();
    let data = json_value(&Contract { requirements: rows, revisions: Revision::ALL, invariants })?;
    Ok(Report { exit: Exit::Ok, data, text })
}

fn show(id: &str) -> Result<Report<Value>, Problem> {
    if let Some(row) = register::requirement(id) {
        let coverage = product_coverage()?;
        let mut text = format!("{}  {}  {}\n", row.id, row.strength, row.text);
        if let Some(reason) = row.reason {
            let _ = writeln!(text, "because {reason}");
        }
        let revisions: Vec<&str> = row.revisions.iter().map(Revision::name).collect();
        let _ = writeln!(
            text,
            "revisions  {}\nsource     {}, {}",
            revisions.join(", "),
            row.source.document.title(),
            row.source.heading
        );
        let covered = coverage
            .rows
            .into_iter()
            .find(|covered| covered.requirement.id == row.id)
            .ok_or_else(|| Problem::fault(format!("{} is missing in the coverage", row.id)))?;
        for (kind, names) in &covered.checked_by {
            let _ = writeln!(text, "{:<10} {}", word(*kind), names.join(", "));
        }
        return Ok(Report { exit: Exit::Ok, data: json_value(&Shown::Requirement(covered))?, text });
    }
    if let Some(invariant) = INVARIANTS.iter().chain(JUDGES).find(|invariant| invariant.name == id) {
        let fields: Vec<String> = invariant.fields.iter().map(|field| format!("{field:?}").to_lowercase()).collect();
        let text = format!(
            "{}  {}\nrequirements  {}\nneeds         {}\n",
            invariant.name,
            invariant.title,
            invariant.requirements.join(", "),
            fields.join(", ")
        );
        let data =
            Shown::Invariant { name: invariant.name, title: invariant.title, requirements: invariant.requirements, fields };
        return Ok(Report { exit: Exit::Ok, data: json_value(&data)?, text });
    }
    if let Ok(revision) = id.parse::<Revision>() {
        let text = format!("{}\n{}", revision, revision::table());
        return Ok(Report { exit: Exit::Ok, data: json_value(&Shown::Revision(revision.rules()))?, text });
    }
    if let Some(rule) = RULES.iter().find(|rule| rule.name() == id) {
        let mut text = format!("{}  {}\n", rule.name(), rule.title());
        let mut data = BTreeMap::new();
        for revision in Revision::ALL {
            let value = revision.rules().get(&rule.name()).map_err(|error| Problem::fault(error.to_string()))?;
            let _ = writeln!(text, "  {revision}  {value}");
            data.insert(revision.name().to_owned(), value);
        }
        return Ok(Report { exit: Exit::Ok, data: json_value(&Shown::Rule(data))?, text });
    }
    Err(Problem::usage(format!("nothing in the contract is called `{id}`"))
        .help("`hostproof spec list` prints requirements, invariants and revisions"))
}

fn covered() -> Result<Report<Value>, Problem> {
    let coverage = product_coverage()?;
    let mut text = String::new();
    for row in &coverage.rows {
        let judges: Vec<String> =
            row.checked_by.iter().map(|(kind, names)| format!("{} {}: {}", names.len(), word(*kind), names.join(", "))).collect();
        let _ = writeln!(
            text,
            "{:<10} {:<6} {}",
            row.requirement.id,
            row.requirement.strength,
            if judges.is_empty() { "nothing".to_owned() } else { judges.join(" · ") }
        );
    }
    for strength in [Strength::Must, Strength::Should, Strength::May] {
        let (judged, all) = coverage.count(strength);
        let _ = writeln!(text, "{strength}: {judged} of {all} are checked");
    }
    for problem in &coverage.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    let exit = if coverage.problems.is_empty() { Exit::Ok } else { Exit::Fault };
    Ok(Report { exit, data: json_value(&coverage)?, text })
}

fn races() -> Result<Report<Value>, Problem> {
    let mut text = String::new();
    for race in RACES {
        let covers: Vec<String> = race.covers.iter().map(Cover::to_string).collect();
        let by = race.excluded.map_or_else(|| covers.join(" · "), |reason| format!("not covered: {reason}"));
        let _ = writeln!(text, "{:<17} {}\n{:<17} {by}", race.id, race.what, "");
    }
    let excluded = RACES.iter().filter(|race| race.excluded.is_some()).count();
    let data = Races { races: RACES, covered: RACES.len() - excluded, excluded };
    let _ = writeln!(
        text,
        "{} of {} known races are covered; {excluded} cannot be, for the reasons above",
        data.covered,
        RACES.len()
    );
    Ok(Report { exit: Exit::Ok, data: json_value(&data)?, text })
}

/// The coverage of the whole product.
///
/// # Errors
/// If a scenario of the suite cannot be read.
pub fn product_coverage() -> Result<Coverage, Problem> {
    let scenarios = hostproof_conformance::scenario::library()
        .map_err(|error| Problem::fault(format!("a scenario of the suite is broken: {error}")))?;
    let cited: Vec<(&str, Vec<&str>)> = scenarios
        .iter()
        .map(|scenario| (scenario.id.as_str(), scenario.requirements.iter().map(String::as_str).collect()))
        .collect();
    let by_scenarios =
        cited.iter().map(|(name, requirements)| Citation { kind: Kind::Scenario, name, requirements: requirements.as_slice() });
    let by_invariants = INVARIANTS.iter().chain(JUDGES).map(|invariant| Citation {
        kind: Kind::Invariant,
        name: invariant.name,
        requirements: invariant.requirements,
    });
    let by_tests = HOST_TESTS.iter().map(|test| Citation { kind: Kind::Test, name: test.path, requirements: test.requirements });
    Ok(coverage(by_invariants.chain(by_scenarios).chain(by_tests)))
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Invariant => "invariant",
        Kind::Scenario => "scenario",
        Kind::Test => "test",
        Kind::Bug => "bug",
        Kind::Point => "rare state",
    }
}
