//! Workload files: what exploration and sweeps start from. Owns which forms are read and how they become one; must never touch a file itself, and never panic on what
//! one holds.

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::choice::{fold, text_hash};
use crate::config::{Config, TrialId};
use crate::plan::{FaultSet, Plan, expected_decisions};
use crate::recording::{RecordedChoice, Recording};
use crate::schedule::order::DefaultOrder;
use crate::trial::Expansion;
use crate::workload::Workload;

/// A trial without a seed: what it is made of, and what was decided in it if it is a kept one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The configuration; the default one if the file has none.
    pub config: Config,
    /// Plan and workload.
    pub expansion: Expansion,
    /// Faults and circumstances; everything else is dull.
    pub choices: Vec<RecordedChoice>,
    /// The order that `decisions` deviate from.
    pub order: DefaultOrder,
    /// Scheduling decisions: tick and position in the ready set.
    pub decisions: Vec<(u32, u32)>,
    /// What the ids of trials that are made of it are derived from.
    pub seed: u64,
}

/// What a file holds that is no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// It is not JSON of any known form.
    #[error("{path}:{line}:{column}: not a workload: {why}")]
    Syntax {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// It contradicts itself, or this build cannot run it.
    #[error("{path}: {why}")]
    Unusable {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

/// Which form a file has, by the fields of its object.
#[derive(Deserialize)]
struct Form {
    data: Option<IgnoredAny>,
    decisions: Option<IgnoredAny>,
    expansion: Option<IgnoredAny>,
    workload: Option<IgnoredAny>,
    phases: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Enveloped<T> {
    data: T,
}

#[derive(Deserialize)]
struct Expanded {
    trial: Option<TrialId>,
    config: Config,
    expansion: Expansion,
}

impl Case {
    /// Reads a recording, what `sim expand` prints (with or without `--json`), an expansion, or a workload.
    ///
    /// # Errors
    /// [`CaseError`] names the file and the place.
    pub fn parse(path: &str, text: &str) -> Result<Self, CaseError> {
        let form: Form = read(path, text)?;
        let case = if form.data.is_some() {
            Self::expanded(read::<Enveloped<Expanded>>(path, text)?.data)
        } else if form.decisions.is_some() {
            let recording = Recording::parse(path, text);
            Self::recorded(recording.map_err(|error| CaseError::Unusable { path: path.to_owned(), why: error.to_string() })?)
        } else if form.expansion.is_some() {
            Self::expanded(read(path, text)?)
        } else if form.workload.is_some() {
            Self::plain(Config::default(), read(path, text)?)
        } else if form.phases.is_some() {
            let workload: Workload = read(path, text)?;
            let plan = Plan { decisions: expected_decisions(workload.calls().count()), ..Plan::default() };
            Self::plain(Config::default(), Expansion { on: FaultSet::NONE, plan, workload })
        } else {
            let why = "it is neither a recording, nor what `sim expand` prints, nor an expansion, nor a workload";
            return Err(CaseError::Unusable { path: path.to_owned(), why: why.to_owned() });
        };
        case.check().map_err(|why| CaseError::Unusable { path: path.to_owned(), why })?;
        Ok(case)
    }

    fn plain(config: Config, expansion: Expansion) -> Self {
        let seed = text_hash(&serde_json::to_string(&expansion).expect("an expansion is plain data"));
        Self { config, expansion, choices: Vec::new(), order: DefaultOrder::default(), decisions: Vec::new(), seed }
    }

    fn expanded(expanded: Expanded) -> Self {
        let plain = Self::plain(expanded.config, expanded.expansion);
        Self { seed: expanded.trial.map_or(plain.seed, |trial| trial.lineage.seed), ..plain }
    }

    fn recorded(recording: Recording) -> Self {
        Self {
            seed: recording.trial.lineage.seed,
            config: recording.config,
            expansion: recording.expansion,
            choices: recording.faults,
            order: recording.default_order,
            decisions: recording.decisions.iter().map(|decision| (decision.tick, decision.index)).collect(),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.config.check().map_err(|error| error.to_string())?;
        if self.expansion.workload.phases.is_empty() { Err("it has no process".to_owned()) } else { Ok(()) }
    }

    /// The id of the `number`-th trial that was made of this case. Only its recording can run it again.
    #[must_use]
    pub fn made_up(&self, number: u64) -> TrialId {
        self.config.trial(fold(self.seed, number))
    }
}

fn read<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, CaseError> {
    serde_json::from_str(text).map_err(|error| CaseError::Syntax {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        why: error.to_string().rsplit_once(" at line ").map_or_else(|| error.to_string(), |(why, _)| why.to_owned()),
    })
}

/// A trial made of a case that broke something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    /// Its id: that of the recording, which alone can run it again.
    pub trial: TrialId,
    /// What it did that the case alone does not.
    pub point: String,
    /// What is wrong.
    pub finding: crate::trial::Finding,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tell::tell;
    use proptest::prelude::*;

    #[test]
    fn every_form_of_a_trial_is_the_same_case() {
        let config = Config::default();
        let expansion = Expansion::of_seed(&config, 7);
        let expanded = serde_json::json!({ "trial": config.trial(7), "config": config, "expansion": expansion });
        let enveloped = serde_json::json!({ "tool": "hostproof", "data": expanded });
        let parse = |value: &serde_json::Value| Case::parse("file", &value.to_string()).unwrap();
        assert_eq!(parse(&expanded), parse(&enveloped));
        assert_eq!((parse(&expanded).seed, &parse(&expanded).expansion), (7, &expansion));
        assert_eq!(parse(&serde_json::to_value(&expansion).unwrap()).expansion, expansion);
        let workload = parse(&serde_json::to_value(&expansion.workload).unwrap());
        assert_eq!((&workload.expansion.workload, workload.expansion.on), (&expansion.workload, FaultSet::NONE));
        let recording = tell(&config, 7).unwrap().recording;
        let recorded = Case::parse("file", &recording.to_text()).unwrap();
        assert_eq!((recorded.decisions.len(), recorded.choices.len()), (recording.decisions.len(), recording.faults.len()));
    }

    #[test]
    fn what_is_no_workload_is_told_with_its_place() {
        let error = |text: &str| Case::parse("w.json", text).unwrap_err().to_string();
        assert!(error("{\n \"phases\": 3}").starts_with("w.json:2:"), "{}", error("{\n \"phases\": 3}"));
        assert!(error("{}").contains("neither a recording"));
        assert!(error("{\"script\":{\"sessions\":{}},\"phases\":[],\"shutdown\":false}").starts_with("w.json"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[{}\\[\\]\":,a-z0-9]{0,60}") {
            let _ = Case::parse("file", &text);
        }
    }
}
