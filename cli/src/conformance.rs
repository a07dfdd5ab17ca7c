//! `hostproof conformance`: the scenarios of the suite for readers and for other tools. Owns their layout as text and as files; must never run one.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use hostproof_conformance::scenario::library;
use hostproof_conformance::scenario::{self, Scenario};
use hostproof_spec::envelope::Exit;
use hostproof_spec::revision::Revision;
use serde_json::Value;

use crate::args::ConformanceCommand;
use crate::data::{Emitted, ScenarioList, ScenarioRow};
use crate::output::{Problem, Report, json_value};

/// Runs one of the `conformance` commands.
///
/// # Errors
/// An unknown id or a directory that is in use is bad use; a scenario that cannot be read is our own fault.
pub fn run(command: &ConformanceCommand) -> Result<Report<Value>, Problem> {
    let dir = match command {
        ConformanceCommand::List { scenarios } => scenarios.as_deref(),
        _ => None,
    };
    let scenarios = scenarios(dir)?;
    match command {
        ConformanceCommand::List { .. } => list(&scenarios),
        ConformanceCommand::Show { id } => show(&scenarios, id),
        ConformanceCommand::Emit { out } => emit(&scenarios, out),
    }
}

/// The scenarios of a directory, or those of the suite.
///
/// # Errors
/// A directory without a sound scenario is bad use; a broken scenario of the suite itself is our own fault.
pub fn scenarios(dir: Option<&Path>) -> Result<Vec<Scenario>, Problem> {
    let Some(dir) = dir else {
        return library().map_err(|error| Problem::fault(format!("a scenario of the suite is broken: {error}")));
    };
    let found = scenario::load_dir(dir).map_err(|error| {
        Problem::usage(error.to_string())
            .help("`hostproof conformance emit` writes the schema, `hostproof conformance show` a model")
    })?;
    if found.is_empty() {
        return Err(
            Problem::usage(format!("{} holds no scenario", dir.display())).help("scenarios are files named <area>/<name>.yaml")
        );
    }
    Ok(found)
}

fn revisions(scenario: &Scenario) -> Vec<&'static str> {
    let all = if scenario.revisions.is_empty() { &Revision::ALL[..] } else { &scenario.revisions };
    all.iter().map(|revision| revision.name()).collect()
}

fn list(scenarios: &[Scenario]) -> Result<Report<Value>, Problem> {
    let mut text = String::new();
    for scenario in scenarios {
        let _ = writeln!(text, "{:<44} {:<34} {}", scenario.id, revisions(scenario).join(" "), scenario.title);
    }
    let _ = writeln!(text, "{} scenarios", scenarios.len());
    let rows: Vec<ScenarioRow> = scenarios
        .iter()
        .map(|scenario| ScenarioRow {
            id: scenario.id.clone(),
            title: scenario.title.clone(),
            revisions: revisions(scenario),
            requirements: scenario.requirements.clone(),
            bugs: scenario.bugs.clone(),
            needs: scenario::needs(scenario),
        })
        .collect();
    Ok(Report { exit: Exit::Ok, data: json_value(&ScenarioList { scenarios: rows })?, text })
}

fn show(scenarios: &[Scenario], id: &str) -> Result<Report<Value>, Problem> {
    let scenario = scenarios.iter().find(|scenario| scenario.id == id).ok_or_else(|| {
        Problem::usage(format!("no scenario is called `{id}`")).help("`hostproof conformance list` prints them")
    })?;
    let data = json(scenario)?;
    let mut text = format!("{}\n{}\n\n{}\n", scenario.id, scenario.title, scenario.story.trim_end());
    let needs: Vec<String> = scenario::needs(scenario).into_iter().collect();
    let _ = writeln!(text, "\nrevisions     {}", revisions(scenario).join(" "));
    let _ = writeln!(text, "requirements  {}", scenario.requirements.join(" "));
    let _ = writeln!(text, "planted bugs  {}", scenario.bugs.join(" "));
    let _ = writeln!(text, "needs         {}", needs.join(" "));
    for (title, member) in [("steps", "steps"), ("expect", "expect")] {
        let _ = writeln!(text, "\n{title}");
        for entry in data.get(member).and_then(Value::as_array).into_iter().flatten() {
            let _ = writeln!(text, "  {entry}");
        }
    }
    Ok(Report { exit: Exit::Ok, data, text })
}

/// Writes `scenarios/<id>.json` and `schemas/<name>.json` into a new or empty directory.
fn emit(scenarios: &[Scenario], out: &Path) -> Result<Report<Value>, Problem> {
    if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Problem::usage(format!("{} is not empty", out.display())).help("name a new or empty directory"));
    }
    let mut written = Vec::new();
    for scenario in scenarios {
        write(out, &format!("scenarios/{}.json", scenario.id), &json(scenario)?, &mut written)?;
    }
    write(out, "schemas/scenario.json", &scenario::schema(), &mut written)?;
    for (name, schema) in hostproof_spec::schemas::schemas() {
        write(out, &format!("schemas/{name}.json"), &schema, &mut written)?;
    }
    let text = format!("{} files below {}\n", written.len(), out.display());
    Ok(Report { exit: Exit::Ok, data: json_value(&Emitted { files: written })?, text })
}

fn json(scenario: &Scenario) -> Result<Value, Problem> {
    serde_json::to_value(scenario).map_err(|error| Problem::fault(format!("{} cannot be written as JSON: {error}", scenario.id)))
}

/// Writes beside and renames, so that nothing half-written stays.
fn write(out: &Path, name: &str, value: &Value, written: &mut Vec<String>) -> Result<(), Problem> {
    let file = out.join(name);
    let mut text = serde_json::to_string_pretty(value).map_err(|error| Problem::fault(format!("{name}: {error}")))?;
    text.push('\n');
    let beside = file.with_extension("json.part");
    file.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&beside, text))
        .and_then(|()| fs::rename(&beside, &file))
        .map_err(|error| Problem::usage(format!("{}: {error}", file.display())).help("name a directory that can be written"))?;
    written.push(name.to_owned());
    Ok(())
}
