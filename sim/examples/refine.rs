//! Judges many trials by the reference model and by replay, and counts what they find. Arguments: trials, workload class, planted bug or `-`, `judges` (without the
//! invariants) or `all`. Prints how many trials each judge found something in, by fingerprint, with the first trial of each.

use std::collections::BTreeMap;

use hostproof_sim::campaign::seed;
use hostproof_sim::config::{Config, WorkloadClass};
use hostproof_sim::judge::Judges;
use hostproof_sim::plan::FaultSet;
use hostproof_sim::trial::{Origin, Runner};
use hostproof_spec::bugs::{BUGS, Bug};
use hostproof_spec::revision::Revision;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let trials: u64 = args.next().map_or(Ok(1000), |text| text.parse())?;
    let workload: WorkloadClass = args.next().as_deref().unwrap_or("standard").parse()?;
    let bug = args.next().filter(|bug| bug != "-").map(|bug| bug.parse::<Bug>()).transpose()?;
    let invariants = args.next().as_deref() == Some("all");
    let mut runner = Runner::new()?;
    runner.judge_by(Judges { invariants, every: 1 });
    for revision in Revision::ALL {
        if bug.is_some_and(|bug| BUGS[bug as usize].revisions.first() != Some(&revision)) {
            continue;
        }
        let config = Config { revision, workload, faults: FaultSet::ALL, ..Config::default() };
        let config = bug.map_or(config.clone(), |bug| config.with_bug(bug));
        let mut found: BTreeMap<String, (u64, u64, String)> = BTreeMap::new();
        for index in 0..trials {
            let seed = seed(7, index);
            let outcome = runner.run(&config, Origin::Seed(seed.into()), None);
            let mut seen = Vec::new();
            for finding in outcome.findings {
                let key = format!("{} {}", finding.invariant, finding.requirement.unwrap_or_default());
                if seen.contains(&finding.invariant) {
                    continue;
                }
                seen.push(finding.invariant);
                let entry = found.entry(key).or_insert((0, seed, finding.message));
                entry.0 += 1;
            }
        }
        println!("{revision}: {trials} trials");
        for (key, (count, seed, message)) in found {
            println!("  {count:6}  {key}  {}  {message}", config.trial(seed));
        }
    }
    Ok(())
}
