//! Channels that know they are alone: one thread, no lock, no count that another processor could see. Owns what the limit needs of tokio's; must never be used outside it.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

struct Shared<T> {
    queue: std::collections::VecDeque<T>,
    bound: usize,
    senders: usize,
    /// Who waits for something to receive.
    receiver: Option<Waker>,
    /// Who waits for room: one sender at most, in this benchmark.
    sender: Option<Waker>,
}

pub struct Sender<T>(Rc<RefCell<Shared<T>>>);
pub struct Receiver<T>(Rc<RefCell<Shared<T>>>);
pub struct UnboundedSender<T>(Sender<T>);

fn shared<T>(bound: usize) -> Rc<RefCell<Shared<T>>> {
    Rc::new(RefCell::new(Shared {
        queue: std::collections::VecDeque::with_capacity(4),
        bound,
        senders: 1,
        receiver: None,
        sender: None,
    }))
}

pub fn channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    let shared = shared(bound);
    (Sender(shared.clone()), Receiver(shared))
}

pub fn unbounded<T>() -> (UnboundedSender<T>, Receiver<T>) {
    let (send, receive) = channel(usize::MAX);
    (UnboundedSender(send), receive)
}

impl<T> Sender<T> {
    fn put(&self, value: T) {
        let mut shared = self.0.borrow_mut();
        shared.queue.push_back(value);
        if let Some(waker) = shared.receiver.take() {
            waker.wake();
        }
    }

    pub async fn send(&self, value: T) -> Result<(), std::convert::Infallible> {
        std::future::poll_fn(|cx| {
            let mut shared = self.0.borrow_mut();
            if shared.queue.len() < shared.bound {
                return Poll::Ready(());
            }
            shared.sender = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        self.put(value);
        Ok(())
    }
}

impl<T> UnboundedSender<T> {
    pub fn send(&self, value: T) -> Result<(), std::convert::Infallible> {
        self.0.put(value);
        Ok(())
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        self.0.0.borrow_mut().senders += 1;
        Self(Sender(self.0.0.clone()))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut shared = self.0.borrow_mut();
        shared.senders -= 1;
        if shared.senders == 0
            && let Some(waker) = shared.receiver.take()
        {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    pub async fn recv(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| {
            let mut shared = self.0.borrow_mut();
            if let Some(value) = shared.queue.pop_front() {
                if let Some(waker) = shared.sender.take() {
                    waker.wake();
                }
                return Poll::Ready(Some(value));
            }
            if shared.senders == 0 {
                return Poll::Ready(None);
            }
            shared.receiver = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
