//! What a connection does when the machine has slept (OP-01).

use steadfast_core::connection;
use steadfast_core::sleep::Slept;
use steadfast_core::stream::Break;
use steadfast_core::stream::listen as get;
use steadfast_store::Transition;

use super::Driver;

impl Driver {
    /// What was idle has rarely survived, and looks as fresh as before: the runtime's timers stood
    /// still.
    pub(super) async fn woke(&mut self, slept: Slept, missed: bool) {
        let is_idle = matches!(
            self.connection,
            connection::State::Disabled
                | connection::State::Misconfigured { .. }
                | connection::State::AwaitingSignIn { .. }
        );
        // A grant that was not renewed may be why it waits for a person by now.
        if missed || !is_idle {
            self.record_sleep(slept, missed);
        }
        for route in &self.routes {
            route.upstream.pool.discard_idle();
        }
        if let get::State::Open { attempt, .. } = self.listen {
            if let Some(stream) = self.stream.take() {
                stream.abort();
            }
            let how = Break::Silence;
            self.feed_listen(get::Event::Broken { attempt, how }).await;
        }
        self.break_subscription().await;
        self.feed(connection::Event::Woke).await;
    }

    /// Whoever reads the history sees why nothing happened meanwhile.
    fn record_sleep(&self, slept: Slept, missed: bool) {
        let state = self.connection.name();
        let window = if missed {
            ", renewal window missed"
        } else {
            ""
        };
        self.shared.record(Transition {
            at: slept.to,
            agent: self.link.agent.clone(),
            server: self.link.server.clone(),
            from: state.to_owned(),
            to: state.to_owned(),
            fault: self.connection.fault().cloned(),
            reason: format!("{slept}{window}"),
        });
    }
}
