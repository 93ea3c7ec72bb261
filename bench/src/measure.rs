//! What the kernel says about a process: CPU time, memory, children.

use std::fs;
use std::time::Duration;

use serde::Serialize;

use crate::Outcome;

/// User and system time of processes, all their threads included (proc_pid_stat(5)).
pub(crate) fn cpu_time(pids: &[u32]) -> Outcome<Duration> {
    let per_second = rustix::param::clock_ticks_per_second();
    let mut ticks = 0;
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        ticks += cpu_ticks(&stat).ok_or_else(|| format!("/proc/{pid}/stat cannot be read"))?;
    }
    Ok(Duration::from_secs(ticks) / u32::try_from(per_second)?)
}

fn cpu_ticks(stat: &str) -> Option<u64> {
    // The command is in parentheses and may hold spaces and parentheses of its own; the state is field 3.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The memory of processes in KiB: resident, and resident with shared pages counted by their share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Memory {
    pub(crate) rss_kib: u64,
    pub(crate) pss_kib: u64,
}

/// Adds up the memory of processes.
pub(crate) fn memory(pids: &[u32]) -> Outcome<Memory> {
    let mut sum = Memory::default();
    for pid in pids {
        let smaps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let field = |name| {
            kib(&smaps, name).ok_or_else(|| format!("/proc/{pid}/smaps_rollup has no {name}"))
        };
        sum.rss_kib += field("Rss:")?;
        sum.pss_kib += field("Pss:")?;
    }
    Ok(sum)
}

fn kib(smaps: &str, name: &str) -> Option<u64> {
    let line = smaps.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// A process and its children: a master and its workers.
pub(crate) fn with_children(parent: u32) -> Outcome<Vec<u32>> {
    let mut pids = vec![parent];
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that ends while the list is read has no file any more.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if parent_of(&stat) == Some(parent) {
            pids.push(pid);
        }
    }
    Ok(pids)
}

fn parent_of(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

/// What the numbers were measured on.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
}

pub(crate) fn machine() -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name.trim());
    Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        processor: processor.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_spaces_and_parentheses_is_skipped() {
        let stat = "42 (a) b) S 7 42 42 0 -1 4194560 1 0 0 0 31 11 9 9 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(parent_of(stat), Some(7));
    }

    #[test]
    fn memory_is_read_by_its_exact_name() {
        let smaps = "5616 [rollup]\nRss:                1760 kB\nPss_Anon: 5 kB\nPss:                 225 kB\n";
        assert_eq!(kib(smaps, "Rss:"), Some(1760));
        assert_eq!(kib(smaps, "Pss:"), Some(225));
        assert_eq!(kib(smaps, "Swap:"), None);
    }

    #[test]
    fn this_process_can_be_measured() {
        let own = [std::process::id()];
        let before = cpu_time(&own).unwrap();
        let mut sum = 0_u64;
        while cpu_time(&own).unwrap() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let memory = memory(&own).unwrap();
        assert!(memory.rss_kib >= memory.pss_kib && memory.pss_kib > 0);
        assert_eq!(with_children(own[0]).unwrap()[0], own[0]);
    }
}
