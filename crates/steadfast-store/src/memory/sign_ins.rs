use async_trait::async_trait;
use steadfast_core::{AgentName, ServerName, Wall};

use super::MemoryRecords;
use crate::error::Error;
use crate::keys::IdHash;
use crate::sign_ins::{SignInRecord, SignIns, Started};

#[async_trait]
impl SignIns for MemoryRecords {
    async fn start_sign_in(
        &self,
        sign_in: &SignInRecord,
        now: Wall,
        restart: bool,
    ) -> Result<Started, Error> {
        let connection = (sign_in.agent.clone(), sign_in.server.clone());
        self.with(|state| {
            if let Some(present) = state.sign_ins.get(&connection)
                && present.expires_at > now
                && !restart
            {
                return Started::Open(Box::new(present.clone()));
            }
            state.sign_ins.insert(connection, sign_in.clone());
            Started::New
        })
    }

    async fn sign_in(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<SignInRecord>, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| state.sign_ins.get(&connection).cloned())
    }

    async fn take_sign_in(&self, state_hash: &IdHash) -> Result<Option<SignInRecord>, Error> {
        self.with(|state| {
            let mut taken = state
                .sign_ins
                .extract_if(.., |_, sign_in| sign_in.state_hash == *state_hash);
            taken.next().map(|(_, sign_in)| sign_in)
        })
    }

    async fn remove_sign_in(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| state.sign_ins.remove(&connection).is_some())
    }

    async fn take_expired_sign_ins(&self, before: Wall) -> Result<Vec<SignInRecord>, Error> {
        self.with(|state| {
            let taken = state
                .sign_ins
                .extract_if(.., |_, sign_in| sign_in.expires_at < before);
            taken.map(|(_, sign_in)| sign_in).collect()
        })
    }
}
