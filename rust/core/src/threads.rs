//! Worker threads that survive a fork.
//!
//! A data loader forks its workers, and a thread pool does not live on in the child: a job given to
//! it there would wait for ever. So the pool remembers which process made it.

use std::sync::{Arc, Mutex, OnceLock};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The most threads that a call may ask for.
pub const MAX_THREADS: usize = 1024;

struct Owned {
    process: u32,
    threads: usize,
    pool: Arc<ThreadPool>,
}

static POOL: Mutex<Option<Owned>> = Mutex::new(None);

/// The threads that this machine can run at once, as found at the first call: asking the system
/// again would cost more than a short sequence does.
pub fn available_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS)))
}

/// A pool of `threads` workers that belongs to this process, or `None` where the system gives none.
pub(crate) fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    // The lock may have been held by another thread when this process was forked; then it stays
    // locked here for ever, and a pool of one's own is the way round it.
    let Ok(mut kept) = POOL.try_lock() else {
        return build(threads);
    };
    let process = std::process::id();
    if let Some(owned) = kept.as_ref() {
        if owned.process == process && owned.threads == threads {
            return Some(owned.pool.clone());
        }
    }
    let pool = build(threads)?;
    if let Some(old) = kept.replace(Owned { process, threads, pool: pool.clone() }) {
        if old.process != process {
            // Its threads are the parent's: ending them here would wait for nobody.
            std::mem::forget(old.pool);
        }
    }
    Some(pool)
}

fn build(threads: usize) -> Option<Arc<ThreadPool>> {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("engram-{index}"))
        .build()
        .ok()
        .map(Arc::new)
}
