//! The actors of the benchmark, once for every engine: each includes this file beside a module `rt` of its own. Owns who says what to whom; must never know
//! which engine runs it.

use super::rt::{self, Cx};
use crate::workload::{NAPPERS, NAPS, Pace, Shape};

/// A parent sends `shape.pings` numbers to its children in turn over bounded channels and adds up what comes back over one without bound.
pub async fn talk(cx: Cx, shape: Shape, seed: u64) -> u64 {
    let mut pace = Pace::new(seed, 0);
    let (back, mut answers) = rt::unbounded();
    let mut children = Vec::with_capacity(shape.children as usize);
    for number in 0..shape.children {
        let (send, receive) = rt::channel(4);
        children.push(send);
        rt::spawn(&cx, child(receive, back.clone(), number, Pace::new(seed, number + 1)));
    }
    drop(back);
    for (ping, child) in (0..shape.pings).zip((0..children.len()).cycle()) {
        children[child].send(ping).await.expect("a child listens until its parent hangs up");
        if pace.yields() {
            rt::yield_now().await;
        }
    }
    drop(children);
    let mut sum = 0;
    while let Some(answer) = answers.recv().await {
        sum += answer;
        if pace.yields() {
            rt::yield_now().await;
        }
    }
    sum
}

async fn child(mut pings: rt::Receiver<u64>, back: rt::UnboundedSender<u64>, number: u64, mut pace: Pace) {
    while let Some(ping) = pings.recv().await {
        back.send(ping * 3 + number).expect("the parent listens to the end");
        if pace.yields() {
            rt::yield_now().await;
        }
    }
}

/// Tasks that do nothing but wait. Comes to the milliseconds that all of them waited.
pub async fn doze(cx: Cx, seed: u64) -> u64 {
    let (done, mut waited) = rt::unbounded();
    for number in 0..NAPPERS {
        rt::spawn(&cx, nap(cx.clone(), done.clone(), Pace::new(seed, number)));
    }
    drop(done);
    let mut sum = 0;
    while let Some(ms) = waited.recv().await {
        sum += ms;
    }
    sum
}

async fn nap(cx: Cx, done: rt::UnboundedSender<u64>, mut pace: Pace) {
    let mut sum = 0;
    for _ in 0..NAPS {
        let ms = pace.nap_ms();
        rt::sleep_ms(&cx, ms).await;
        sum += ms;
    }
    done.send(sum).expect("the parent listens to the end");
}
