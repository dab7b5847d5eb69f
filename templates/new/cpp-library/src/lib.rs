//! Safe wrapper of the functions in `native/include/@ident@.h`.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::ptr::NonNull;

mod native {
    use std::ffi::c_char;

    #[repr(C)]
    pub struct Summary {
        _private: [u8; 0],
    }

    unsafe extern "C" {
        #[link_name = "@ident@_summary_new"]
        pub fn summary_new() -> *mut Summary;
        #[link_name = "@ident@_summary_free"]
        pub fn summary_free(summary: *mut Summary);
        #[link_name = "@ident@_summary_add"]
        pub fn summary_add(summary: *mut Summary, value: f64) -> *const c_char;
        #[link_name = "@ident@_summary_count"]
        pub fn summary_count(summary: *const Summary) -> usize;
        #[link_name = "@ident@_summary_mean"]
        pub fn summary_mean(summary: *const Summary, mean: *mut f64) -> *const c_char;
        #[link_name = "@ident@_summary_median"]
        pub fn summary_median(summary: *const Summary, median: *mut f64) -> *const c_char;
    }
}

/// An error message of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Statistics of values that are added one by one.
pub struct Summary(NonNull<native::Summary>);

// SAFETY: the library locks shared state, and nothing in it is bound to a thread.
unsafe impl Send for Summary {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Summary {}

impl Summary {
    /// A summary without values.
    ///
    /// # Panics
    /// Out of memory.
    pub fn new() -> Self {
        // SAFETY: the function has no parameters, and the caller owns the result.
        let summary = unsafe { native::summary_new() };
        Self(NonNull::new(summary).expect("memory for a summary"))
    }

    /// Adds a value; any thread may call it.
    ///
    /// # Errors
    /// The value is not finite.
    pub fn add(&self, value: f64) -> Result<(), Error> {
        // SAFETY: the summary is alive until `self` is dropped.
        check(unsafe { native::summary_add(self.0.as_ptr(), value) })
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        // SAFETY: the summary is alive until `self` is dropped.
        unsafe { native::summary_count(self.0.as_ptr()) }
    }

    /// The mean of the values.
    ///
    /// # Errors
    /// The summary is empty.
    pub fn mean(&self) -> Result<f64, Error> {
        let mut mean = 0.0;
        // SAFETY: the summary is alive until `self` is dropped, and `mean` is valid for one number.
        check(unsafe { native::summary_mean(self.0.as_ptr(), &mut mean) })?;
        Ok(mean)
    }

    /// The median of the values.
    ///
    /// # Errors
    /// The summary is empty.
    pub fn median(&self) -> Result<f64, Error> {
        let mut median = 0.0;
        // SAFETY: the summary is alive until `self` is dropped, and `median` is valid for one number.
        check(unsafe { native::summary_median(self.0.as_ptr(), &mut median) })?;
        Ok(median)
    }
}

impl Default for Summary {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Summary {
    fn drop(&mut self) {
        // SAFETY: the summary is not used any more, and it is freed once.
        unsafe { native::summary_free(self.0.as_ptr()) }
    }
}

fn check(error: *const c_char) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the text is static and NUL-terminated.
    Err(Error(
        unsafe { CStr::from_ptr(error) }
            .to_string_lossy()
            .into_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_median_are_computed() {
        let summary = Summary::new();
        for value in [4.0, 1.0, 10.0, 2.0] {
            summary.add(value).unwrap();
        }
        assert_eq!(
            (summary.count(), summary.mean(), summary.median()),
            (4, Ok(4.25), Ok(3.0))
        );
    }

    #[test]
    fn exceptions_become_errors() {
        let summary = Summary::new();
        assert_eq!(summary.mean(), Err(Error("no values".to_owned())));
        assert_eq!(
            summary.add(f64::NAN),
            Err(Error("not a finite number".to_owned()))
        );
        assert_eq!(summary.count(), 0);
    }

    #[test]
    fn threads_share_a_summary() {
        let summary = Summary::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|value| summary.add(f64::from(value)).unwrap()));
            }
        });
        assert_eq!((summary.count(), summary.median()), (4000, Ok(499.5)));
    }
}
