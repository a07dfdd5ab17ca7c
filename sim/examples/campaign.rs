//! A campaign from the command line, for measuring: `campaign [trials] [revision] [faults] [jobs]`, or `campaign tell <revision> <trial id>`, or
//! `campaign bugs [trials]`.

use hostproof_sim::campaign::{Campaign, run};
use hostproof_sim::config::{Config, TrialId};
use hostproof_sim::hunt::{Hunting, hunt};
use hostproof_sim::tell::tell;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |index: usize, default: &str| args.get(index).cloned().unwrap_or_else(|| default.to_owned());
    if arg(0, "") == "tell" {
        let config = Config { revision: arg(1, "2026-09-01").parse()?, ..Config::default() };
        let telling = tell(&config, arg(2, "").parse::<TrialId>()?.lineage)?;
        println!("{}", telling.events.join("\n"));
        println!("{:#?}\n{:#?}", telling.outcome.findings, telling.recording.fingerprint);
        println!("{}", serde_json::to_string_pretty(&telling.recording.expansion)?);
        return Ok(());
    }
    if arg(0, "") == "bugs" {
        let hunts = hunt(&Hunting { searches: 1, cap: arg(1, "20000").parse()?, ..Hunting::default() }, &|| {})?;
        println!("{}", serde_json::to_string_pretty(&hunts)?);
        return Ok(());
    }
    let config = Config { revision: arg(1, "2026-09-01").parse()?, faults: arg(2, "all").parse()?, ..Config::default() };
    let campaign = Campaign {
        config,
        trials: Some(arg(0, "1000").parse()?),
        jobs: arg(3, "1").parse()?,
        stop: false,
        ..Campaign::default()
    };
    let report = run(&campaign, &|_| {})?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
