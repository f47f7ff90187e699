//! Answers whole, in pieces, and hostile.

use proptest::prelude::*;

use super::*;

/// One answer of each kind, with nothing left over.
fn whole(bytes: &str) -> Result<Reply, Garbage> {
    let (reply, used) = parse(bytes.as_bytes())?.unwrap_or_else(|| panic!("{bytes:?} is not whole"));
    assert_eq!(used, bytes.len(), "{bytes:?}");
    Ok(reply)
}

fn counter_of(value: u64, left: Left) -> Body {
    Body::Counter { value, left }
}

#[test]
fn each_answer_is_read() {
    for (bytes, opaque, body) in [
        ("VA 1 t60 O6\r\n1\r\n", Some(6), counter_of(1, Left::Seconds(60))),
        ("VA 3 O6 t-1\r\n99 \r\n", Some(6), counter_of(99, Left::Forever)),
        ("VA 20 t0\r\n18446744073709551615\r\n", None, counter_of(u64::MAX, Left::Seconds(0))),
        ("VA 1 c5 s1 f0 kkey t4294967235 W\r\n0\r\n", None, counter_of(0, Left::Seconds(4_294_967_235))),
        ("HD O18446744073709551615\r\n", Some(u64::MAX), Body::Done),
        ("NF O3\r\n", Some(3), Body::Missing),
        ("EN\r\n", None, Body::Missing),
        ("NS O3\r\n", Some(3), Body::Refused("NS".into())),
        ("ERROR\r\n", None, Body::Refused("ERROR".into())),
        ("SERVER_ERROR out of memory\r\n", None, Body::Refused("SERVER_ERROR out of memory".into())),
        ("CLIENT_ERROR \x1b[2Jbad\u{e4}\r\n", None, Body::Refused("CLIENT_ERROR .[2Jbad..".into())),
    ] {
        assert_eq!(whole(bytes), Ok(Reply { opaque, body }), "{bytes:?}");
    }
}

#[test]
fn an_answer_in_pieces_is_waited_for_to_its_last_byte() {
    for bytes in ["VA 3 t60 O6\r\n100\r\n", "HD O9\r\n", "NF O9\r\n", "SERVER_ERROR out of memory\r\n"] {
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes.as_bytes()[..end]), Ok(None), "{:?}", &bytes[..end]);
        }
        whole(bytes).unwrap();
        // What follows is left alone.
        let followed = format!("{bytes}HD O1\r\n");
        let (_, used) = parse(followed.as_bytes()).unwrap().unwrap();
        assert_eq!(used, bytes.len());
    }
}

#[test]
fn garbage_is_told_from_an_answer() {
    for (bytes, garbage) in [
        ("\r\n", Garbage::Unknown),
        ("STORED\r\n", Garbage::Unknown),
        ("va 1 t1\r\n1\r\n", Garbage::Unknown),
        ("HD\n", Garbage::LineEnd),
        ("HTTP/1.1 400 Bad Request\r\n", Garbage::Unknown),
        ("-ERR unknown command\r\n", Garbage::Unknown),
        ("VA\r\n", Garbage::Value),
        ("VA x t1\r\n1\r\n", Garbage::Value),
        ("VA -1 t1\r\n", Garbage::Value),
        ("VA +1 t1\r\n1\r\n", Garbage::Value),
        ("VA 21 t1\r\n", Garbage::Value),
        ("VA 18446744073709551616 t1\r\n", Garbage::Value),
        ("VA 1048576 t1\r\n", Garbage::Value),
        ("VA 0 t1\r\n\r\n", Garbage::Value),
        ("VA 3 t1\r\nabc\r\n", Garbage::Value),
        ("VA 2 t1\r\n-1\r\n", Garbage::Value),
        ("VA 1 t1\r\n12\r\n", Garbage::Value),
        ("VA 20 t1\r\n99999999999999999999\r\n", Garbage::Value),
        ("VA 1 O1\r\n1\r\n", Garbage::Flag),
        ("VA 1 tx\r\n1\r\n", Garbage::Flag),
        ("VA 1 t-2\r\n1\r\n", Garbage::Flag),
        ("HD O\r\n", Garbage::Flag),
        ("HD O-1\r\n", Garbage::Flag),
    ] {
        assert_eq!(parse(bytes.as_bytes()), Err(garbage), "{bytes:?}");
    }
}

#[test]
fn a_line_without_an_end_is_not_waited_for_for_ever() {
    assert_eq!(parse(&[b'x'; MAX_LINE - 1]), Ok(None));
    assert_eq!(parse(&[b'x'; MAX_LINE]), Err(Garbage::LongLine));
    let mut longest = b"ERROR ".to_vec();
    longest.resize(MAX_LINE - 2, b'e');
    longest.extend(b"\r\n");
    assert!(matches!(parse(&longest), Ok(Some((_, MAX_LINE)))));
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_or_garbage_or_too_few(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        match parse(&bytes) {
            Ok(Some((_, used))) => prop_assert!(used <= bytes.len() && used > 0),
            Ok(None) => prop_assert!(bytes.len() < MAX_LINE + MAX_DIGITS + 2),
            Err(_) => {}
        }
    }

    #[test]
    fn bytes_that_look_like_answers_do_no_harm(text in "(VA|HD|NF|EN|ERROR|O|t|[0-9]{0,3}| |\r\n){0,12}") {
        if let Ok(Some((_, used))) = parse(text.as_bytes()) {
            prop_assert!(used <= text.len() && used > 0);
        }
    }
}
