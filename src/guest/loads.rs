//! The load of a phase: one client thread per generator, in the network of the pod it calls.

use super::error::system;
use super::namespaces::Network;
use super::recorder::Recorder;
use super::{GuestError, threads};
use crate::load::{Span, execute};
use crate::record::{Frame, LoadOrder};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The clients of a phase.
#[derive(Debug)]
pub struct Loads {
    stop: Arc<OwnedFd>,
    wake: Arc<OwnedFd>,
    ended: Arc<AtomicUsize>,
    threads: Vec<(String, JoinHandle<Result<(), GuestError>>)>,
}

impl Loads {
    /// No client yet.
    ///
    /// # Errors
    /// No event descriptor.
    pub fn new() -> Result<Loads, GuestError> {
        let event =
            || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| system("make an eventfd")(e.into()));
        Ok(Loads { stop: Arc::new(event()?), wake: Arc::new(event()?), ended: Arc::default(), threads: Vec::new() })
    }

    /// Starts a client. Arrivals count from `start_ns` of the recorder's time.
    ///
    /// # Errors
    /// No thread.
    pub fn start(
        &mut self,
        load: &LoadOrder,
        phase: &str,
        start_ns: u64,
        network: Arc<Network>,
        recorder: &Arc<Recorder>,
    ) -> Result<(), GuestError> {
        let (load, phase, recorder) = (load.clone(), phase.to_owned(), Arc::clone(recorder));
        let (stop, wake, ended) = (Arc::clone(&self.stop), Arc::clone(&self.wake), Arc::clone(&self.ended));
        let name = load.name.clone();
        let client = move || -> Result<(), GuestError> {
            threads::become_realtime(threads::LOAD)?;
            network.enter().map_err(system("enter a pod's network"))?;
            let epoch_ns = recorder.epoch_ns();
            let span = Span { phase: &phase, epoch_ns, start_ns: epoch_ns + start_ns, stop: stop.as_fd() };
            Ok(execute(&load, span, &mut |request| recorder.frame(&Frame::Request(request)))?)
        };
        let run = move || {
            let result = client();
            ended.fetch_add(1, Ordering::Release);
            _ = rustix::io::write(&wake, &1u64.to_ne_bytes());
            result
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(run).map_err(system("start a load client"))?;
        self.threads.push((name, thread));
        Ok(())
    }

    /// Readable when a client has ended since [`Loads::all_answered`] was last asked.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// True when every client has ended by itself.
    pub fn all_answered(&self) -> bool {
        let mut count = [0; 8];
        _ = rustix::io::read(&self.wake, &mut count[..]);
        self.ended.load(Ordering::Acquire) == self.threads.len()
    }

    /// Ends the clients; requests under way are reported as unfinished.
    ///
    /// # Errors
    /// A client's failure.
    pub fn stop(self) -> Result<(), GuestError> {
        _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        for (name, thread) in self.threads {
            thread.join().map_err(|_| GuestError::Panicked(name))??;
        }
        Ok(())
    }
}
