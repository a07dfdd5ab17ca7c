//! The product's own promises about what it checks: a requirement that nothing checks, an invariant that nothing has ever broken, or a rare state without
//! a proper name fails the build.

use std::collections::BTreeMap;

use hostproof_cli::spec::product_coverage;
use hostproof_spec::bugs::BUGS;
use hostproof_spec::invariants::INVARIANTS;
use hostproof_spec::model::JUDGES;
use hostproof_spec::points::points;
use hostproof_spec::register::host_tests::HOST_TESTS;
use hostproof_spec::register::races::{Cover, RACES};

#[test]
fn every_must_is_checked_and_every_citation_leads_somewhere() {
    let coverage = product_coverage().expect("the scenarios are sound");
    let problems: Vec<String> = coverage.problems.iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_planted_bug_breaks_what_its_invariant_or_one_of_its_scenarios_cites() {
    let scenarios = hostproof_conformance::scenario::library().expect("the scenarios are sound");
    let mut uncited = Vec::new();
    for plan in BUGS {
        let invariant = INVARIANTS.iter().chain(JUDGES).find(|invariant| invariant.name == plan.invariant);
        let invariant = invariant.unwrap_or_else(|| panic!("{} names `{}`, which is no invariant", plan.id, plan.invariant));
        let by_scenario = scenarios.iter().any(|scenario| {
            scenario.bugs.iter().any(|bug| bug == plan.id) && scenario.requirements.iter().any(|id| id == plan.requirement)
        });
        // What nobody sees from outside may be left to a test of the host.
        let by_test = !plan.scenario && HOST_TESTS.iter().any(|test| test.requirements.contains(&plan.requirement));
        if !invariant.requirements.contains(&plan.requirement) && !by_scenario && !by_test {
            uncited.push(format!("{} breaks {}, which {} does not cite", plan.id, plan.requirement, plan.invariant));
        }
    }
    assert!(uncited.is_empty(), "{}", uncited.join("\n"));
}

#[test]
fn every_bug_that_a_scenario_can_see_is_seen_by_one() {
    let scenarios = hostproof_conformance::scenario::library().expect("the scenarios are sound");
    let unseen: Vec<&str> = BUGS
        .iter()
        .filter(|plan| plan.scenario && !scenarios.iter().any(|scenario| scenario.bugs.iter().any(|bug| bug == plan.id)))
        .map(|plan| plan.id)
        .collect();
    assert!(unseen.is_empty(), "no scenario names {}", unseen.join(", "));
}

#[test]
fn every_invariant_has_a_planted_bug() {
    let untried: Vec<&str> = INVARIANTS
        .iter()
        .chain(JUDGES)
        .filter(|invariant| !BUGS.iter().any(|plan| plan.invariant == invariant.name))
        .map(|invariant| invariant.name)
        .collect();
    assert!(untried.is_empty(), "nothing shows that these can fail: {}", untried.join(", "));
}

#[test]
fn rare_states_have_one_name_each_of_the_form_area_what() {
    let points = points();
    assert!(points.len() > 10, "the host and the simulator are linked in: {points:?}");
    let is_word = |word: &str| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && !word.starts_with('-')
            && !word.ends_with('-')
    };
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for point in points {
        let well_formed = point.name.split_once('/').is_some_and(|(area, what)| is_word(area) && is_word(what));
        assert!(well_formed, "{} at {}:{}", point.name, point.file, point.line);
        places.entry(point.name).or_default().push(format!("{}:{}", point.file, point.line));
    }
    let twice: Vec<_> = places.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn every_known_race_is_covered_by_something_that_exists_or_says_why_it_cannot_be() {
    let scenarios = hostproof_conformance::scenario::library().expect("the scenarios are sound");
    let coverage = product_coverage().expect("the scenarios are sound");
    let exists = |cover: &Cover| match cover {
        Cover::Requirement(id) => coverage.rows.iter().any(|row| row.requirement.id == *id && (row.is_judged() || !must(row))),
        Cover::Point(name) => points().iter().any(|point| point.name == *name),
        Cover::Scenario(id) => scenarios.iter().any(|scenario| scenario.id == *id),
        Cover::Bug(id) => BUGS.iter().any(|plan| plan.id == *id),
    };
    let mut ids = std::collections::BTreeSet::new();
    let mut problems = Vec::new();
    for race in RACES {
        if !ids.insert(race.id) {
            problems.push(format!("{} is there twice", race.id));
        }
        if race.covers.is_empty() == race.excluded.is_none() {
            problems.push(format!("{} is neither covered nor excluded, or both", race.id));
        }
        problems.extend(race.covers.iter().filter(|cover| !exists(cover)).map(|cover| format!("{} cites {cover}", race.id)));
        // A rare state shows that the situation is met; something must also judge what comes of it.
        let judged = |cover: &Cover| match cover {
            Cover::Requirement(id) => coverage.rows.iter().any(|row| row.requirement.id == *id && row.is_judged()),
            Cover::Scenario(_) => true,
            Cover::Point(_) | Cover::Bug(_) => false,
        };
        if race.excluded.is_none() && !race.covers.iter().any(judged) {
            problems.push(format!("nothing judges {}", race.id));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn must(row: &hostproof_spec::coverage::Covered) -> bool {
    row.requirement.strength == hostproof_spec::register::Strength::Must
}
