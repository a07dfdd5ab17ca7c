//! The table of what another host does otherwise: every row is shown by the workload that it names. Needs the packages of that host, and says so where they are not.

use std::path::Path;

use hostproof_conformance::compare::{Comparison, Pair, REVISION, Table, compare, show};
use hostproof_conformance::host::ProcessHost;
use hostproof_conformance::reference::{ServeConfig, in_process};
use hostproof_conformance::run::Budgets;
use hostproof_spec::envelope::Exit;

#[test]
fn every_row_of_the_table_is_shown_by_its_workload_and_nothing_else_differs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("hosts/dsh");
    let table = Table::load(&dir.join("differences.yaml")).unwrap_or_else(|error| panic!("{error}"));
    if !dir.join("node_modules").is_dir() {
        eprintln!("SKIPPED, loudly: the packages of dsh are not installed (npm ci --ignore-scripts in {})", dir.display());
        return;
    }
    let mut reference = in_process(ServeConfig { revision: Some(REVISION), ..ServeConfig::default() });
    let mut other = ProcessHost::new(vec![dir.join("run.sh").display().to_string()]);
    let budgets = Budgets::default();
    let mut pair = Pair::start(&mut reference, &mut other, budgets, &table).expect("both start");
    for row in &table.differences {
        let shown = show(&mut pair, row.seed, &table).expect("shown");
        let explained = shown.differences.iter().any(|(_, by)| by.as_ref() == Some(row));
        assert!(explained, "workload {} does not show `{}`:\n{}", row.seed, row.matches, shown.text);
    }
    let comparison = Comparison { first: 0, workloads: 30, table, budgets };
    let compared = compare(&mut pair, &comparison, &mut |_| {}).expect("compared");
    pair.end();
    assert_eq!((compared.exit(), compared.unexplained), (Exit::Ok, Vec::new()));
}
