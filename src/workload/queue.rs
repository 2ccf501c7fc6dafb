//! A queue in front of one working thread: completions wait in the order they came.

use super::openai::Answer;
use super::server::Service;
use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The queue.
#[derive(Debug)]
pub struct Queue {
    model: String,
    waiting: Mutex<VecDeque<Answer>>,
    arrived: Condvar,
}

impl Queue {
    /// An empty queue of a server with this model name.
    pub fn new(model: String) -> Queue {
        Queue { model, waiting: Mutex::default(), arrived: Condvar::new() }
    }

    /// The next request; waits for it.
    pub fn take(&self) -> Answer {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(answer) = waiting.pop_front() {
                return answer;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next request, if it comes before `until`.
    pub fn take_before(&self, until: Instant) -> Option<Answer> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(answer) = waiting.pop_front() {
                return Some(answer);
            }
            if left.is_zero() {
                return None;
            }
            waiting = self.arrived.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Service for Queue {
    fn model(&self) -> &str {
        &self.model
    }

    fn complete(&self, answer: Answer) -> io::Result<()> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
        self.arrived.notify_one();
        Ok(())
    }
}
