//! One file for each command.

pub(crate) mod agent;
pub(crate) mod apply;
pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod grant;
pub(crate) mod import;
pub(crate) mod notices;
pub(crate) mod operations;
pub(crate) mod reload;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod sign_in;
pub(crate) mod status;
pub(crate) mod vault;
