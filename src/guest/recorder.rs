//! Where frames go: encoded into one buffer, appended to the shared memory or to a file, in the order they happen.

use crate::load::monotonic_ns;
use crate::record::shm::Output;
use crate::record::{Event, EventKind, Frame, encode_frame, port};
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// The output with its clock. Shared by all threads; the lock is held for the copy of one frame.
#[derive(Debug)]
pub struct Recorder {
    epoch_ns: u64,
    sink: Mutex<Sink>,
}

#[derive(Debug)]
struct Sink {
    output: Place,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Place {
    Shared(Output),
    File(File),
}

// Kept free for the frame that says that nothing more fits.
const RESERVE: usize = 4096;

impl Recorder {
    /// Time counts from here.
    pub fn new(output: Output) -> Recorder {
        Recorder::at(Place::Shared(output))
    }

    /// Appends to a file instead, on a node that outlives the run.
    pub fn to_file(file: File) -> Recorder {
        Recorder::at(Place::File(file))
    }

    fn at(output: Place) -> Recorder {
        Recorder { epoch_ns: monotonic_ns(), sink: Mutex::new(Sink { output, buffer: Vec::with_capacity(64 << 10) }) }
    }

    /// Nanoseconds since the arm began.
    pub fn now(&self) -> u64 {
        monotonic_ns() - self.epoch_ns
    }

    /// CLOCK_MONOTONIC when the arm began.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    /// Appends a frame. When the output is full the run ends here, with a fault.
    pub fn frame(&self, frame: &Frame) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let Sink { output, buffer } = &mut *sink;
        buffer.clear();
        encode_frame(frame, buffer);
        let output = match output {
            Place::Shared(output) => output,
            Place::File(file) => {
                // A stream that lacks a frame must not be taken for a whole one; it is cut off here and has no end.
                if file.write_all(buffer).is_err() {
                    std::process::exit(1);
                }
                return;
            }
        };
        if output.capacity() - output.len() < buffer.len() + RESERVE {
            buffer.clear();
            let message = format!(
                "the output area of {} bytes is full: sample less often or make the shared memory larger",
                output.capacity()
            );
            encode_frame(&Frame::Fault { message }, buffer);
            _ = output.append(buffer);
            _ = port::end();
        }
        // It fits, as was just seen.
        _ = output.append(buffer);
    }

    /// Appends an event that happens now.
    pub fn event(&self, kind: EventKind) {
        self.event_at(self.now(), kind);
    }

    /// Appends an event that happened at a time.
    pub fn event_at(&self, at_ns: u64, kind: EventKind) {
        self.frame(&Frame::Event(Event { at_ns, kind }));
    }

    /// Appends a fault.
    pub fn fault(&self, message: &str) {
        self.frame(&Frame::Fault { message: message.to_owned() });
    }
}

/// A panic of any thread becomes a fault and ends the machine: a half-dead guest has no result.
pub fn report_panics(recorder: &Arc<Recorder>) {
    let recorder = Arc::downgrade(recorder);
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(recorder) = recorder.upgrade() {
            recorder.fault(&format!("the guest program panicked: {panic}"));
        }
        _ = port::end();
    }));
}
