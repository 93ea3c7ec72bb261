//! nginx, configured as one would for MCP: connections kept alive on both sides, and nothing buffered.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{Open, Route};
use crate::Outcome;
use crate::process::Process;

pub(super) async fn start(upstream: SocketAddr) -> Outcome<Open> {
    let program = find().ok_or("nginx is not installed")?;
    let folder = tempfile::Builder::new()
        .prefix("steadfast-bench-nginx-")
        .tempdir()?;
    let address = free_address()?;
    let file = folder.path().join("nginx.conf");
    fs::write(&file, configuration(folder.path(), address, upstream))?;
    let process = Process::start(
        "nginx",
        Command::new(program)
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&file)
            .args(["-e", "stderr"]),
    )?;
    Ok(Open {
        route: Route::Nginx,
        address,
        key: None,
        process: Some(process),
        pids: Vec::new(),
        _folder: Some(folder),
    })
}

/// In PATH, or where Debian keeps programs for root.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join("nginx"))
        .find(|file| file.is_file())
}

/// nginx cannot say which port it was given, so that a free one is chosen for it.
fn free_address() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn configuration(folder: &Path, listen: SocketAddr, upstream: SocketAddr) -> String {
    // Workers of a master that root started would otherwise run as a user that cannot read the folder.
    let user = if rustix::process::geteuid().is_root() {
        "user root;\n"
    } else {
        ""
    };
    let folder = folder.display();
    format!(
        "{user}\
daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    tcp_nodelay on;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
    upstream mcp {{
        server {upstream};
        keepalive 256;
        keepalive_timeout 1h;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {listen};
        location / {{
            proxy_pass http://mcp;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_buffering off;
            proxy_read_timeout 1h;
        }}
    }}
}}
"
    )
}
