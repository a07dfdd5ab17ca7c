//! Whether records that decode make a session. Pure; must never look at bytes.

use std::rc::Rc;

use crate::session::event::{Body, Record};

/// What is wrong with the turns and steps of a log; `None` if nothing is. An open end is nothing wrong: the writer may have died.
#[must_use]
pub fn problem(records: &[Rc<Record>]) -> Option<String> {
    let (mut turn, mut step) = (None, None);
    for record in records {
        let at = record.seq;
        match &record.body {
            Body::TurnStart { turn: number } => {
                if let Some(open) = turn {
                    return Some(format!("seq {at} opens turn {number} inside turn {open}"));
                }
                turn = Some(*number);
            }
            Body::TurnEnd { turn: number, .. } => {
                if turn.take() != Some(*number) {
                    return Some(format!("seq {at} closes turn {number}, which is not open"));
                }
                step = None;
            }
            Body::StepStart { turn: of, step: number } => {
                if turn != Some(*of) || step.is_some() {
                    return Some(format!("seq {at} opens step {number} of turn {of} where it cannot be"));
                }
                step = Some(*number);
            }
            Body::StepEnd { turn: of, step: number } => {
                let is_open = turn == Some(*of) && step.take() == Some(*number);
                if !is_open {
                    return Some(format!("seq {at} closes step {number} of turn {of}, which is not open"));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use hostproof_spec::history::StopReason;

    use super::*;

    fn log(bodies: Vec<Body>) -> Vec<Rc<Record>> {
        (0..).zip(bodies).map(|(seq, body)| Rc::new(Record { seq, time: 0, body })).collect()
    }

    fn end(turn: u32) -> Body {
        Body::TurnEnd { turn, reason: StopReason::Completed, detail: None }
    }

    #[test]
    fn balanced_turns_and_an_open_end_are_sound() {
        let (open, step) = (Body::TurnStart { turn: 1 }, Body::StepStart { turn: 1, step: 1 });
        let closed = Body::StepEnd { turn: 1, step: 1 };
        assert_eq!(problem(&log(vec![open.clone(), step.clone(), closed, end(1), Body::TurnStart { turn: 2 }])), None);
        assert_eq!(problem(&log(vec![open, step])), None);
        assert_eq!(problem(&[]), None);
    }

    #[test]
    fn what_closes_without_being_open_or_opens_twice_is_named() {
        let open = Body::TurnStart { turn: 1 };
        let cases = [
            vec![end(1)],
            vec![open.clone(), end(2)],
            vec![open.clone(), open.clone()],
            vec![Body::StepStart { turn: 1, step: 1 }],
            vec![open, Body::StepEnd { turn: 1, step: 1 }],
        ];
        let found: Vec<String> = cases.into_iter().map(|bodies| problem(&log(bodies)).expect("a problem")).collect();
        insta::assert_snapshot!(found.join("\n"), @r"
        seq 0 closes turn 1, which is not open
        seq 1 closes turn 2, which is not open
        seq 1 opens turn 1 inside turn 1
        seq 0 opens step 1 of turn 1 where it cannot be
        seq 1 closes step 1 of turn 1, which is not open
        ");
    }
}
