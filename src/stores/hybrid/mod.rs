//! A limiter, and another one while that fails.
