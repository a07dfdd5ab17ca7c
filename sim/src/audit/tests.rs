//! Stories of audits: equal tellings are equal, and what differs is named with its tick.

use super::*;
use hostproof_spec::revision::Revision;

type Waiting<'a> = Box<dyn FnOnce() -> Result<Vec<Elsewhere<'a>>, String> + 'a>;

/// Processes that have told already.
fn there<'a>(all: Vec<Elsewhere<'a>>) -> impl FnOnce() -> Result<Waiting<'a>, String> {
    || Ok(Box::new(|| Ok(all)) as Waiting<'a>)
}

#[test]
fn trials_do_not_depend_on_what_ran_before_them() {
    for revision in Revision::ALL {
        let config = Config { revision, ..Config::default() };
        let audit = audit(&config, 3, 60, there(Vec::new())).unwrap().unwrap();
        assert_eq!((audit.trials, audit.divergences), (60, Vec::new()));
        assert!(audit.whole_micros > audit.once_micros && audit.once_micros > 0);
    }
}

/// What another process tells in whose telling `planted` is planted.
fn with(planted: Option<Planted>, trials: u64) -> Audit {
    let config = Config::default();
    let tell = Box::new(|trial| ticks(&config, trial, planted).map_err(|error| error.to_string()));
    let lines = told(&config, 3, trials, planted).unwrap().iter().map(Told::to_string).collect();
    let other = Elsewhere { name: "another process".to_owned(), lines, ticks: tell };
    audit(&config, 3, 40, there(vec![other])).unwrap().unwrap()
}

#[test]
fn a_changed_hash_is_named_with_its_tick() {
    assert_eq!(with(None, 40).divergences, Vec::<String>::new());
    let trial = told(&Config::default(), 3, 40, None).unwrap()[23].trial;
    let planted = format!("{trial}@17").parse().unwrap();
    let audit = with(Some(planted), 40);
    assert_eq!((audit.elsewhere, audit.divergences.len()), (40, 1));
    let told = &audit.divergences[0];
    let begin = format!("in this process and in another process: trial {trial} diverges at tick 17:\n");
    assert!(told.starts_with(&begin), "{told}");
    let (gone, came) = (told.matches("\n-1").count(), told.matches("\n+1").count());
    assert!(gone > 0 && gone == came, "both tails from tick 17 on: {told}");
    assert!(told.contains("\n 16 "), "and what was before: {told}");
}

#[test]
fn a_process_that_tells_less_or_other_trials_is_noticed() {
    assert_eq!(with(None, 39).divergences, ["another process told 39 of 40 trials"]);
    let config = Config::default();
    let lines: Vec<String> = told(&config, 4, 40, None).unwrap().iter().map(Told::to_string).collect();
    let silent = Box::new(|_: TrialId| Err("it is silent".to_owned()));
    let other = Elsewhere { name: "another process".to_owned(), lines, ticks: silent };
    let audit = audit(&config, 3, 40, there(vec![other])).unwrap().unwrap();
    assert_eq!(audit.divergences.len(), 1);
    assert!(audit.divergences[0].ends_with("another trial was picked"), "{:?}", audit.divergences);
}

#[test]
fn a_process_that_does_not_explain_is_told_without() {
    let config = Config::default();
    let mut lines: Vec<String> = told(&config, 3, 5, None).unwrap().iter().map(Told::to_string).collect();
    lines[2].pop();
    let silent = Box::new(|_: TrialId| Err("it is silent".to_owned()));
    let other = Elsewhere { name: "another process".to_owned(), lines, ticks: silent };
    let audit = audit(&config, 3, 5, there(vec![other])).unwrap().unwrap();
    assert_eq!(audit.divergences.len(), 1);
    assert!(audit.divergences[0].ends_with("(another process does not tell its ticks: it is silent)"), "{:?}", audit.divergences);
}

#[test]
fn what_a_test_plants_is_written_as_trial_and_tick() {
    let trial = Config::default().trial(7);
    assert_eq!(format!("{trial}@5").parse(), Ok(Planted { trial, tick: 5 }));
    for text in ["", "5", &format!("{trial}@"), &format!("{trial}@-1"), "hp1@3"] {
        assert!(text.parse::<Planted>().is_err(), "{text}");
    }
}
