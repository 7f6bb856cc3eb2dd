//! Threads of our own, so that XLA's threads stay free.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::call::guarded;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that are started when no other is idle, so that a job never waits for another.
///
/// That matters because to complete an XLA future can mean to run the rest of a device's program
/// at once, in this very thread, up to a collective that waits for all the other devices.
pub struct Workers {
    queue: Mutex<Queue>,
    job_added: Condvar,
}

struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
}

/// How long an idle thread stays.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Of each thread, in bytes: what a program's main thread commonly has, for XLA's code runs here.
const STACK_SIZE: usize = 8 << 20;

impl Workers {
    /// No threads yet.
    pub const fn new() -> Self {
        Self { queue: Mutex::new(Queue { jobs: VecDeque::new(), idle: 0 }), job_added: Condvar::new() }
    }

    /// Runs `job` on a thread of its own.
    pub fn run(&'static self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.lock();
        queue.jobs.push_back(Box::new(job));
        if queue.jobs.len() <= queue.idle {
            self.job_added.notify_one();
            return;
        }
        let thread = thread::Builder::new().name("meshsolve-worker".into()).stack_size(STACK_SIZE);
        if thread.spawn(|| self.work()).is_err() {
            // Better to keep the caller busy than to lose the job.
            let job = queue.jobs.pop_back();
            drop(queue);
            job.into_iter().for_each(run_guarded);
        }
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            while let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                run_guarded(job);
                queue = self.lock();
            }
            queue.idle += 1;
            let (woken, wait) = self
                .job_added
                .wait_timeout_while(queue, IDLE_TIME, |queue| queue.jobs.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if wait.timed_out() && queue.jobs.is_empty() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Workers {
    fn default() -> Self {
        Self::new()
    }
}

/// A job that panics must not take its thread along. What it owned reports the loss when dropped.
fn run_guarded(job: Job) {
    let _ = guarded(|| {
        job();
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn workers() -> &'static Workers {
        Box::leak(Box::default())
    }

    #[test]
    fn jobs_that_wait_for_each_other_all_run() {
        let workers = workers();
        for jobs in [1, 2, 50] {
            let (barrier, (sender, receiver)) = (Arc::new(Barrier::new(jobs)), mpsc::channel());
            for job in 0..jobs {
                let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
                workers.run(move || {
                    barrier.wait();
                    sender.send(job).unwrap();
                });
            }
            let mut done: Vec<_> = (0..jobs).map(|_| receiver.recv_timeout(LONG).unwrap()).collect();
            done.sort_unstable();
            assert_eq!(done, (0..jobs).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_idle_thread_is_used_again_even_after_a_panic() {
        let workers = workers();
        let (sender, receiver) = mpsc::channel();
        let mut names = Vec::new();
        for _ in 0..3 {
            let sender = sender.clone();
            workers.run(move || {
                sender.send(thread::current().id()).unwrap();
                panic!("on purpose");
            });
            names.push(receiver.recv_timeout(LONG).unwrap());
            while workers.lock().idle == 0 {
                thread::yield_now();
            }
        }
        assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    }
}
