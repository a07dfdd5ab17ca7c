//! JUnit XML. Owns the form that reports of evaluations and of campaigns share; must never decide what failed.

use std::io;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As promised.
    Passed,
    /// It says nothing, for this reason.
    Skipped(String),
    /// What was checked is broken.
    Failed {
        /// Kind of the failure, in a word.
        kind: String,
        /// One line.
        message: String,
    },
    /// The check itself went wrong.
    Error {
        /// Kind of the error, in a word.
        kind: String,
        /// One line.
        message: String,
    },
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name, unique in its suite.
    pub name: String,
    /// How it ended.
    pub ended: Ended,
    /// Real time in milliseconds.
    pub millis: u64,
}

/// JUnit XML of named suites.
///
/// # Errors
/// If a text cannot be written as XML.
pub fn junit(title: &str, suites: Vec<(&str, Vec<Case>)>) -> io::Result<String> {
    let mut report = Report::new(title);
    for (name, cases) in suites {
        let mut suite = TestSuite::new(name);
        suite.add_test_cases(cases.into_iter().map(case));
        report.add_test_suite(suite);
    }
    report.to_string().map_err(io::Error::other)
}

fn case(case: Case) -> TestCase {
    let not = |kind, word: String, message: String| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(word).set_message(message);
        status
    };
    let status = match case.ended {
        Ended::Passed => TestCaseStatus::success(),
        Ended::Skipped(message) => {
            let mut skipped = TestCaseStatus::skipped();
            skipped.set_message(message);
            skipped
        }
        Ended::Failed { kind, message } => not(NonSuccessKind::Failure, kind, message),
        Ended::Error { kind, message } => not(NonSuccessKind::Error, kind, message),
    };
    let mut test = TestCase::new(case.name, status);
    test.set_time(Duration::from_millis(case.millis));
    test
}
