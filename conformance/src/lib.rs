//! The conformance suite: scenarios as data, a runner that drives any host over the suite's wire, calibration of what a host claims, and verdicts.
//!
//! Owns the judgement of foreign hosts; must never take a host's word for what it can observe itself. A host adds control and observation, the suite judges.

pub mod compare;
pub mod deviations;
pub mod host;
pub mod judge;
pub mod junit;
pub mod protocol;
pub mod reference;
pub mod report;
pub mod run;
pub mod scenario;
pub mod suite;
pub mod verdict;
