//! A campaign from the command line, for measuring: `campaign [trials] [revision] [faults] [jobs]`, or `campaign tell <revision> <seed>`.

use hostproof_sim::campaign::{Campaign, run, tell};
use hostproof_sim::config::{Config, TrialId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |index: usize, default: &str| args.get(index).cloned().unwrap_or_else(|| default.to_owned());
    if arg(0, "") == "tell" {
        let config = Config { revision: arg(1, "2026-09-01").parse()?, ..Config::default() };
        let telling = tell(&config, arg(2, "").parse::<TrialId>()?.seed)?;
        println!("{}", telling.events.join("\n"));
        println!("{:#?}\n{:#?}", telling.outcome.findings, telling.recording.fingerprint);
        println!("{}", serde_json::to_string_pretty(&telling.recording.expansion)?);
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
