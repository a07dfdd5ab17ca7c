//! `hostproof sim audit`. Owns the other process.

use std::fmt::Write as _;
use std::process::Command;

use hostproof_sim::audit::{self, Audit};
use hostproof_sim::campaign;
use hostproof_sim::config::Lineage;
use hostproof_spec::envelope::Exit;
use serde_json::Value;

use super::exec;
use crate::args::AuditArgs;
use crate::data::Audited;
use crate::output::{Problem, Report, json_value};

/// Set in the worker processes of an audit, so that their environment differs.
const AUDIT_ENVIRONMENT: &str = "HOSTPROOF_AUDIT_ELSEWHERE";

/// Tells trials forwards, backwards and in another process, and compares.
///
/// # Errors
/// If this program cannot start itself.
pub fn audit(args: &AuditArgs) -> Result<Report<Value>, Problem> {
    let config = args.config.config();
    let seeds: Vec<Lineage> = (0..args.trials).map(|index| campaign::seed(args.base, index).into()).collect();
    if args.worker {
        let lines = audit::hash_lines(&config, &seeds).map_err(exec)?;
        return Ok(Report { exit: Exit::Ok, text: lines.join("\n"), data: json_value(&Audited::Told { lines })? });
    }
    let elsewhere = elsewhere(args)?;
    let Audit { trials, elsewhere, divergences } = audit::audit(&config, &seeds, Some(&elsewhere)).map_err(exec)?;
    let mut text = format!("{trials} trials told forwards and backwards in this process, {elsewhere} of them in another\n");
    for divergence in &divergences {
        let _ = writeln!(text, "{divergence}");
    }
    let _ = writeln!(text, "{}", if divergences.is_empty() { "all hashes are equal" } else { "hostproof itself is at fault" });
    let exit = if divergences.is_empty() { Exit::Ok } else { Exit::Fault };
    Ok(Report { exit, data: json_value(&Audited::Compared { trials, elsewhere, divergences })?, text })
}

/// What another process, with another environment, tells of the same trials.
fn elsewhere(args: &AuditArgs) -> Result<Vec<String>, Problem> {
    let cannot = |error: std::io::Error| Problem::fault(format!("hostproof cannot start itself for the audit: {error}"));
    let config = args.config.config();
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command
        .args(["sim", "audit", "--worker", "--revision", config.revision.name(), "--workload", config.workload.name()])
        .args(["--scheduler", &config.scheduler.to_string(), "--faults", &config.faults.to_string()])
        .args(["--trials", &args.trials.to_string(), "--base", &args.base.to_string()])
        .args(config.bugs.iter().flat_map(|bug| ["--bug", bug]))
        .env(AUDIT_ENVIRONMENT, "another environment, of another length, in another process");
    let done = command.output().map_err(cannot)?;
    if !done.status.success() {
        return Err(Problem::fault(format!(
            "the audit's other process failed: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )));
    }
    Ok(String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect())
}
