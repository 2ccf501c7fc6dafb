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
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// The clients of a phase: made ready first, then set off together.
#[derive(Debug)]
pub struct Loads {
    stop: Arc<OwnedFd>,
    wake: Arc<OwnedFd>,
    ended: Arc<AtomicUsize>,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    name: String,
    set_off: Sender<u64>,
    thread: JoinHandle<Result<(), GuestError>>,
}

impl Loads {
    /// No client yet.
    ///
    /// # Errors
    /// No event descriptor.
    pub fn new() -> Result<Loads, GuestError> {
        let event =
            || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| system("make an eventfd")(e.into()));
        Ok(Loads { stop: Arc::new(event()?), wake: Arc::new(event()?), ended: Arc::default(), clients: Vec::new() })
    }

    /// Makes a client ready: its thread has its priority and its network when this returns. (A thread of a real-time thread begins as an
    /// ordinary one and would otherwise not run before the main thread sleeps.)
    ///
    /// # Errors
    /// No thread.
    pub fn prepare(
        &mut self,
        load: &LoadOrder,
        phase: &str,
        network: Arc<Network>,
        recorder: &Arc<Recorder>,
    ) -> Result<(), GuestError> {
        let (load, phase, recorder) = (load.clone(), phase.to_owned(), Arc::clone(recorder));
        let (stop, wake, ended) = (Arc::clone(&self.stop), Arc::clone(&self.wake), Arc::clone(&self.ended));
        let name = load.name.clone();
        let (is_ready, ready) = channel();
        let (set_off, start) = channel();
        let client = move || -> Result<(), GuestError> {
            threads::become_realtime(threads::LOAD)?;
            network.enter().map_err(system("enter a pod's network"))?;
            drop(is_ready);
            // No start comes when the phase failed before it began.
            let Ok(start_ns) = start.recv() else { return Ok(()) };
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
        // Nothing is ever sent: the end of the channel is the message, whether the client got ready or failed.
        let _: Result<(), _> = ready.recv();
        self.clients.push(Client { name, set_off, thread });
        Ok(())
    }

    /// Sets all clients off. Arrivals count from `start_ns` of the recorder's time.
    pub fn set_off(&self, start_ns: u64) {
        for client in &self.clients {
            _ = client.set_off.send(start_ns);
        }
    }

    /// Readable when a client has ended since [`Loads::all_answered`] was last asked.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// True when every client has ended by itself.
    pub fn all_answered(&self) -> bool {
        let mut count = [0; 8];
        _ = rustix::io::read(&self.wake, &mut count[..]);
        self.ended.load(Ordering::Acquire) == self.clients.len()
    }

    /// Ends the clients; requests under way are reported as unfinished.
    ///
    /// # Errors
    /// A client's failure.
    pub fn stop(self) -> Result<(), GuestError> {
        _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        for Client { name, thread, .. } in self.clients {
            thread.join().map_err(|_| GuestError::Panicked(name))??;
        }
        Ok(())
    }
}
