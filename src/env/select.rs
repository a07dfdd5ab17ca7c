//! Waiting for the first of several futures in an order that the environment chooses. Owns nothing; must never draw chance of its own.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use futures_util::future::poll_fn;

use crate::env::Env;

/// Which of two futures was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    First(A),
    /// The second.
    Second(B),
}

/// The output of whichever future is ready first; the other is dropped. When both could be ready in the same poll, [`Env::choose`] at `site` says which
/// is asked first: it is drawn once a poll, so a scheduler can have it either way.
pub async fn select2<A: Future, B: Future>(env: &dyn Env, site: &'static str, a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|context| {
        if env.choose(site, 2) == 0 {
            if let Poll::Ready(output) = a.as_mut().poll(context) {
                return Poll::Ready(Either::First(output));
            }
            b.as_mut().poll(context).map(Either::Second)
        } else {
            if let Poll::Ready(output) = b.as_mut().poll(context) {
                return Poll::Ready(Either::Second(output));
            }
            a.as_mut().poll(context).map(Either::First)
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::rc::Rc;

    use super::{Either, select2};
    use crate::persistence::testing::{MemDisk, MemEnv};

    #[test]
    fn when_both_are_ready_the_environment_chooses() {
        for (choice, expected) in [(0, Either::First('a')), (1, Either::Second('b'))] {
            let env = MemEnv::new(&Rc::new(MemDisk::default()));
            env.choice.set(choice);
            let inner = env.clone();
            let got = env.wait(async move { select2(&*inner, "test/select", ready('a'), ready('b')).await });
            assert_eq!(got, Some(expected));
            let inner = env.clone();
            let got = env.wait(async move { select2(&*inner, "test/select", pending::<char>(), ready('b')).await });
            assert_eq!(got, Some(Either::Second('b')), "what is not ready is not chosen");
        }
    }
}
