use hostproof_spec::bugs::{Bug, BugSet};

use super::*;
use crate::reference::{ServeConfig, in_process};

/// The reference beside itself, with planted bugs on the other side.
fn beside_itself(bugs: &[Bug], workloads: u64, table: Table) -> Compared {
    let bugs = bugs.iter().fold(BugSet::NONE, |set, bug| set.with(*bug));
    let mut one = in_process(ServeConfig { revision: Some(REVISION), ..ServeConfig::default() });
    let mut two = in_process(ServeConfig { revision: Some(REVISION), bugs, ..ServeConfig::default() });
    let budgets = Budgets::default();
    let mut pair = Pair::start(&mut one, &mut two, budgets, &table).expect("both start");
    let compared = compare(&mut pair, &Comparison { first: 0, workloads, table, budgets }, &mut |_| {}).expect("compared");
    pair.end();
    compared
}

#[test]
fn a_host_beside_itself_differs_in_nothing_and_every_verb_is_agreed_on() {
    let compared = beside_itself(&[], 60, Table::default());
    assert_eq!(compared.unexplained, []);
    assert_eq!((compared.equal, compared.to_the_end, compared.exit()), (60, 60, Exit::Ok));
    assert!(compared.records > 1000, "{}", compared.records);
    for verb in ["create-session", "start", "deliver", "prompt", "interrupt", "list-children", "drain-descendants"] {
        assert!(compared.agreed[verb].ok > 0, "{verb}: {:?}", compared.agreed);
    }
}

#[test]
fn a_planted_bug_on_one_side_is_a_difference_and_a_row_of_the_table_explains_it() {
    let compared = beside_itself(&[Bug::M20], 60, Table::default());
    assert_eq!(compared.exit(), Exit::Found);
    let kind = compared.unexplained[0].kind.clone();
    let row = Row { matches: kind.clone(), reason: "planted".to_owned(), basis: "M20".to_owned(), seed: 0, go_on: false };
    let all = Table {
        differences: compared
            .unexplained
            .iter()
            .map(|unexplained| Row { matches: unexplained.kind.clone(), ..row.clone() })
            .collect(),
        ..Table::default()
    };
    let compared = beside_itself(&[Bug::M20], 60, all);
    assert_eq!(compared.unexplained, []);
    assert_eq!(compared.exit(), Exit::Ok);
    assert!(compared.to_the_end < 60 && compared.explained.iter().any(|explained| explained.first_seed.is_some()));
}
