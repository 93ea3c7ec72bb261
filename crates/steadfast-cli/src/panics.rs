//! A panic is a fault of ours. Where it is, is told; what it says is not: the message may hold whatever the code had in
//! its hands, a token among it (SEC-01).

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use steadfast_core::code;

/// From now on panics are told without their messages.
pub(crate) fn tell_without_messages() {
    std::panic::set_hook(Box::new(|info| {
        tracing::error!(code = %code::INTERNAL, "{}", told(info, &Backtrace::capture()));
    }));
}

/// A backtrace names functions and lines, and no values.
fn told(info: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let mut text = match info.location() {
        Some(at) => format!("a fault of Steadfast's own at {at}"),
        None => "a fault of Steadfast's own".to_owned(),
    };
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("\n{backtrace}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panic_says_where_and_not_what() {
        const CANARY: &str = "hK7zQ2wXv9LmR4tYb8NcJ5pD";
        let (tell, heard) = mpsc::channel();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = tell.send(told(info, &Backtrace::force_capture()));
        }));
        let carried: Result<(), String> = Err(CANARY.to_owned());
        let ended = std::panic::catch_unwind(|| carried.clone().unwrap());
        std::panic::set_hook(before);
        assert!(ended.is_err());
        let said = heard.recv().unwrap();
        assert!(said.contains(file!()), "{said}");
        for slice in CANARY.as_bytes().windows(8) {
            let slice = std::str::from_utf8(slice).unwrap();
            assert!(!said.contains(slice), "{said}");
        }
    }
}
