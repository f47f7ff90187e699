//! Quotas as text.

use std::time::Duration;

use proptest::prelude::*;

use super::{config, quotas};
use crate::bucket::{ParseQuotaError, Quota, QuotaError};

#[test]
fn quotas_are_read_as_people_write_them() {
    for (text, quota) in [
        ("100/s", Quota::per_second(100)),
        ("5/m", Quota::per_minute(5)),
        ("1/h burst 3", Quota::per_hour(1).burst(3)),
        ("50/1d", Quota::per_day(50)),
        ("7/10s", Quota::new(7, Duration::from_secs(10)).unwrap()),
        ("1/250ms", Quota::every(Duration::from_millis(250))),
        ("100/s refuse all", Quota::per_second(100).refuse_all()),
    ] {
        assert_eq!(text.parse(), Ok(quota), "{text}");
    }
}

#[test]
fn what_has_another_form_is_shown_with_the_form_that_it_should_have() {
    for text in [
        "",
        "100",
        "/s",
        "100/",
        "100/10",
        "-1/s",
        "+1/s",
        "1 /s",
        "1/ s",
        "1.5/s",
        "1/S",
        "1/y",
        "1/s burst",
        "1/s burst x",
        "1/s,2",
    ] {
        let error = text.parse::<Quota>().unwrap_err();
        assert_eq!(error, ParseQuotaError::Form { text: text.into() });
        assert!(error.to_string().contains("COUNT/PERIOD"), "{error}");
    }
}

#[test]
fn what_no_quota_can_be_says_why() {
    let error = "0/s".parse::<Quota>().unwrap_err();
    assert_eq!(error, ParseQuotaError::Quota { text: "0/s".into(), source: QuotaError::ZeroCount });
    for text in ["1/0s", "1000001/s", "1/31d", "1/s burst 0", "1/s burst 4294967296", "1/99999999999999d"] {
        assert!(matches!(text.parse::<Quota>(), Err(ParseQuotaError::Quota { .. })), "{text}");
    }
    // Beyond any number.
    assert!("99999999999999999999/s".parse::<Quota>().is_err());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_written_is_read_again(quota in quotas(), refuses: bool) {
        let quota = if refuses { quota.refuse_all() } else { quota };
        prop_assert_eq!(quota.to_string().parse(), Ok(quota));
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = text.parse::<Quota>();
    }
}
