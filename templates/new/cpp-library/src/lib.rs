//! The safe side of the library: what `native/include/@ident@.h` declares.

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

/// What the library refuses, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Values that are added one by one, and what they are like.
pub struct Summary(NonNull<native::Summary>);

// SAFETY: the library locks what threads share, and nothing in it belongs to one thread.
unsafe impl Send for Summary {}
// SAFETY: as above.
unsafe impl Sync for Summary {}

impl Summary {
    /// Nothing so far.
    ///
    /// # Panics
    /// There is no memory left.
    pub fn new() -> Self {
        // SAFETY: the function takes nothing, and what it returns is ours to free.
        let summary = unsafe { native::summary_new() };
        Self(NonNull::new(summary).expect("memory for a summary"))
    }

    /// One more value, from any thread.
    ///
    /// # Errors
    /// It is not a finite number.
    pub fn add(&self, value: f64) -> Result<(), Error> {
        // SAFETY: the summary is alive until `self` is dropped.
        said(unsafe { native::summary_add(self.0.as_ptr(), value) })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        // SAFETY: the summary is alive until `self` is dropped.
        unsafe { native::summary_count(self.0.as_ptr()) }
    }

    /// Their mean.
    ///
    /// # Errors
    /// There is no value.
    pub fn mean(&self) -> Result<f64, Error> {
        let mut mean = 0.0;
        // SAFETY: the summary is alive until `self` is dropped, and `mean` is a place for one number.
        said(unsafe { native::summary_mean(self.0.as_ptr(), &mut mean) })?;
        Ok(mean)
    }

    /// The value in their middle.
    ///
    /// # Errors
    /// There is no value.
    pub fn median(&self) -> Result<f64, Error> {
        let mut median = 0.0;
        // SAFETY: the summary is alive until `self` is dropped, and `median` is a place for one number.
        said(unsafe { native::summary_median(self.0.as_ptr(), &mut median) })?;
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
        // SAFETY: nobody uses it any more, and it is freed once.
        unsafe { native::summary_free(self.0.as_ptr()) }
    }
}

fn said(why: *const c_char) -> Result<(), Error> {
    if why.is_null() {
        return Ok(());
    }
    // SAFETY: the text is static and ends in a zero byte.
    Err(Error(
        unsafe { CStr::from_ptr(why) }
            .to_string_lossy()
            .into_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_median_are_told() {
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
        assert_eq!(summary.mean(), Err(Error("there is no value".to_owned())));
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
