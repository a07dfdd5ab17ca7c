//! The actors of the benchmark, once for every engine: each includes this file beside a module `rt` of its own. Owns who says what to whom; must never know
//! which engine runs it.

use super::rt::{self, Cx};
use crate::workload::{NAPPERS, NAPS, Pace, Shape, Workload, YIELDERS, YIELDS};

/// The main task of a workload; what it comes to.
pub async fn main(cx: Cx, workload: Workload, seed: u64) -> u64 {
    match workload.shape() {
        Some(shape) => talk(cx, shape, seed).await,
        None if workload == Workload::T => doze(cx, seed).await,
        None if workload == Workload::Y => give_way(cx).await,
        None => 0,
    }
}

/// A parent sends `shape.pings` numbers to its children in turn over bounded channels and adds up what comes back over one without bound.
async fn talk(cx: Cx, shape: Shape, seed: u64) -> u64 {
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
async fn doze(cx: Cx, seed: u64) -> u64 {
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

/// Tasks that only give way to each other. Comes to how often they did.
async fn give_way(cx: Cx) -> u64 {
    let (done, mut counts) = rt::unbounded();
    for _ in 0..YIELDERS {
        rt::spawn(&cx, yielder(done.clone()));
    }
    drop(done);
    let mut sum = 0;
    while let Some(count) = counts.recv().await {
        sum += count;
    }
    sum
}

async fn yielder(done: rt::UnboundedSender<u64>) {
    for _ in 0..YIELDS {
        rt::yield_now().await;
    }
    done.send(YIELDS).expect("the parent listens to the end");
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
