use http::HeaderValue;
use sfv::{BareItem, List, ListEntry, Parser};
use smallvec::SmallVec;

use super::*;
use crate::{Limiter, ManualClock, Quota, http::admission::left_behind};

fn every_style() -> Styles {
    [HeaderStyle::Draft, HeaderStyle::RateLimit, HeaderStyle::XRateLimit].into_iter().collect()
}

/// A limit of which that was said last.
fn told(limiter: &Limiter, decision: Decision) -> Told {
    Told::new(&decision, || (limiter.default_scope().quota(), Refill::Steady), every_style())
}

/// A limit that was asked `count` times for one permit.
fn asked(limiter: Limiter, count: u64) -> Told {
    let last = (0..count).fold(None, |_, _| Some(limiter.check("")));
    told(&limiter, last.expect("asked at least once"))
}

fn headers(styles: &[HeaderStyle], entries: &[Told]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    write(&mut headers, styles.iter().copied().collect(), entries);
    headers
}

fn at_rest(quota: Quota) -> Limiter {
    Limiter::local_with_clock(quota, ManualClock::new())
}

fn draft(entry: Told) -> (String, String) {
    let headers = headers(&[HeaderStyle::Draft], &[entry]);
    let text = |name: &str| headers[name].to_str().expect("visible ASCII").to_string();
    (text("ratelimit-policy"), text("ratelimit"))
}

#[test]
fn the_draft_style_tells_quota_and_level() {
    let (policy, limit) = draft(asked(at_rest(Quota::per_minute(60)), 1));
    assert_eq!((policy.as_str(), limit.as_str()), (r#""default";q=60;w=60"#, r#""default";r=59;t=1"#));
    let (policy, limit) = draft(asked(at_rest(Quota::per_second(10).burst(500)), 1));
    assert_eq!(policy, r#""default";q=10;w=1;peerlimit-burst=500"#);
    assert_eq!(limit, r#""default";r=499;t=1"#);
}

#[test]
fn more_is_there_when_the_fields_say_so() {
    // One permit a second: the next one is always a second away, however much is missing.
    for count in [1, 30, 60, 61] {
        let (_, limit) = draft(asked(at_rest(Quota::per_minute(60)), count));
        assert!(limit.ends_with(";t=1"), "{limit}");
    }
    // What was charged beyond the burst has to come back before anything passes.
    let limiter = at_rest(Quota::per_minute(60));
    limiter.charge("", 65);
    let (_, limit) = draft(told(&limiter, left_behind(limiter.peek(""))));
    assert_eq!(limit, r#""default";r=0;t=6"#);
}

#[test]
fn a_reset_of_zero_is_written() {
    let limiter = at_rest(Quota::per_minute(60));
    let full = told(&limiter, limiter.peek(""));
    let headers = headers(&[HeaderStyle::Draft, HeaderStyle::RateLimit, HeaderStyle::XRateLimit], &[full]);
    assert_eq!(headers["ratelimit"], r#""default";r=60;t=0"#);
    assert_eq!(headers["ratelimit-reset"], "0");
    assert_eq!(headers["x-ratelimit-reset"], "0");
}

#[test]
fn a_structured_fields_parser_reads_all_members() {
    let limiter = at_rest(Quota::per_second(5));
    let named = limiter.scope("a \"quoted\" näme\\", Quota::per_hour(7)).check("").policy;
    let mut second = asked(at_rest(Quota::per_hour(7)), 3);
    second.policy = named;
    let headers = headers(&[HeaderStyle::Draft], &[asked(limiter, 1), second]);
    let list = |name: &str| -> List { Parser::new(headers[name].as_bytes()).parse().expect("a list") };
    let names = |list: &List| -> Vec<String> {
        let item = |entry: &ListEntry| match entry {
            ListEntry::Item(item) => item.bare_item.as_string().expect("a string").as_str().to_string(),
            ListEntry::InnerList(_) => panic!("no list in it"),
        };
        list.iter().map(item).collect()
    };
    for name in ["ratelimit-policy", "ratelimit"] {
        assert_eq!(names(&list(name)), ["default", r#"a "quoted" n_me\"#]);
    }
    let ListEntry::Item(limit) = &list("ratelimit")[1] else { panic!("an item") };
    assert_eq!(limit.params.get("r"), Some(&BareItem::Integer(4.into())));
    // A permit takes 514.28 s.
    assert_eq!(limit.params.get("t"), Some(&BareItem::Integer(515.into())));
}

#[test]
fn of_several_limits_the_older_styles_tell_the_tightest() {
    let entries: SmallVec<[_; 2]> =
        [asked(at_rest(Quota::per_minute(60)), 1), asked(at_rest(Quota::per_hour(10)), 4)].into_iter().collect();
    let all = headers(&[HeaderStyle::RateLimit, HeaderStyle::XRateLimit], &entries);
    assert_eq!((&all["ratelimit-limit"], &all["ratelimit-remaining"]), (&"10".parse().unwrap(), &"6".parse().unwrap()));
    assert_eq!(all["ratelimit-reset"], "360", "the next permit");
    assert_eq!(all["x-ratelimit-reset"], "1440", "all of them");
    // As over layers, in either order.
    for order in [[0, 1], [1, 0]] {
        let mut stacked = HeaderMap::new();
        for index in order {
            let styles = [HeaderStyle::RateLimit, HeaderStyle::XRateLimit].into_iter().collect();
            write(&mut stacked, styles, std::slice::from_ref(&entries[index]));
        }
        assert_eq!(stacked, all);
    }
    // What somebody else left there and is no number gives way.
    let mut odd = HeaderMap::new();
    odd.insert("ratelimit-remaining", HeaderValue::from_bytes(b"\xff").unwrap());
    write(&mut odd, [HeaderStyle::RateLimit].into_iter().collect(), &entries);
    assert_eq!(odd["ratelimit-remaining"], "6");
}

#[test]
fn seconds_are_rounded_up() {
    for (nanos, seconds) in [(0, 0), (1, 1), (1_000_000_000, 1), (1_000_000_001, 2)] {
        assert_eq!(whole_seconds(Duration::from_nanos(nanos)), seconds);
    }
}

#[test]
fn hidden_headers_are_not_written() {
    assert!(headers(&[], &[asked(at_rest(Quota::per_minute(60)), 1)]).is_empty());
}

#[test]
fn of_a_window_nothing_is_said_to_be_back_before_it_is() {
    let quota = Quota::per_minute(60);
    let minute = Duration::from_secs(60);
    let window = |decision| draft(Told::new(&decision, || (quota, Refill::Window), every_style())).1;
    assert_eq!(window(Decision::allow(60, 60, Duration::ZERO)), r#""default";r=60;t=0"#);
    assert_eq!(window(Decision::allow(60, 20, minute)), r#""default";r=20;t=60"#);
    let wait = Duration::from_millis(12_345);
    assert_eq!(window(Decision::refuse(60, 0, minute, Some(wait))), r#""default";r=0;t=13"#);
    assert_eq!(window(Decision::refuse(60, 7, minute, None)), r#""default";r=7;t=60"#);
}

#[test]
fn what_a_style_does_not_tell_is_not_worked_out_and_what_it_tells_does_not_depend_on_others() {
    let limiter = at_rest(Quota::per_minute(60).burst(70));
    let decision = limiter.check_n("", 3);
    let all = [HeaderStyle::Draft, HeaderStyle::RateLimit, HeaderStyle::XRateLimit];
    let together = headers(&all, &[told(&limiter, decision)]);
    for style in all {
        let styles = [style].into_iter().collect();
        let alone =
            headers(&[style], &[Told::new(&decision, || (limiter.default_scope().quota(), Refill::Steady), styles)]);
        assert!(alone.len() >= 2);
        for (name, value) in &alone {
            assert_eq!(together[name], value, "{name}");
        }
    }
    let nobody = || panic!("no field tells of the quota");
    let _told = Told::new(&decision, nobody, [HeaderStyle::XRateLimit].into_iter().collect());
}

#[test]
fn numbers_of_any_length_are_written_in_full() {
    for number in [0, 1, 9, 10, 99, 100, 12_345_678_909, u64::MAX - 1, u64::MAX] {
        assert_eq!(scalar::decimal(number), number.to_string());
    }
    for power in 0..20 {
        let number = 10_u64.pow(power);
        assert_eq!(scalar::decimal(number), number.to_string());
        assert_eq!(scalar::decimal(number - 1), (number - 1).to_string());
    }
}
