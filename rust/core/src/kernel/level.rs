//! Which instructions the kernels use: the best that this CPU has, or the ones that a test forces.

use std::sync::atomic::{AtomicU8, Ordering};

/// A set of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// What every CPU of the target has: SSE2 on x86-64, NEON on aarch64.
    Portable = 1,
    /// AVX2 on x86-64.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL on x86-64.
    Avx512 = 3,
}

impl Level {
    /// The name that is shown and forced by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// 0 before the first look; a forced level stays until another is forced.
static CURRENT: AtomicU8 = AtomicU8::new(0);

/// The levels that this CPU has, ascending.
pub fn available_levels() -> Vec<Level> {
    #[cfg(target_arch = "x86_64")]
    {
        let mut levels = vec![Level::Portable];
        if is_x86_feature_detected!("avx2") {
            levels.push(Level::Avx2);
            let features = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if features {
                levels.push(Level::Avx512);
            }
        }
        levels
    }
    #[cfg(not(target_arch = "x86_64"))]
    vec![Level::Portable]
}

/// Makes all kernels of this process use one level; `None` goes back to the best. `false` if the CPU
/// has not that level. Results never depend on it.
pub fn force_level(level: Option<Level>) -> bool {
    let available = available_levels();
    let level = level.unwrap_or(available[available.len() - 1]);
    let known = available.contains(&level);
    if known {
        CURRENT.store(level as u8, Ordering::Relaxed);
    }
    known
}

/// The level to use now.
#[inline]
pub(super) fn current() -> Level {
    match CURRENT.load(Ordering::Relaxed) {
        1 => Level::Portable,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => {
            force_level(None);
            current()
        }
    }
}
