use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row as _, query};
use steadfast_core::{AgentName, Fault, ServerName, Wall};

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use super::statement::{Statement, number, server_text, text};
use crate::error::{Error, Problem};
use crate::notices::{Moment, NoticeRecord, Notices, Opening, Telling};

/// A notice with one of its messages, or with none.
struct Line {
    notice: NoticeRecord,
    telling: Option<Telling>,
}

impl Stored for Line {
    const TABLE: &'static str = "notices";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        let moment = match row.get::<Option<&str>>("moment")? {
            None => None,
            Some("opened") => Some(Moment::Opened),
            Some("cleared") => Some(Moment::Cleared),
            Some(_) => return Err(row.unreadable(Problem::Damaged, "moment")),
        };
        Ok(Self {
            notice: NoticeRecord {
                agent: row.agent_name("agent")?,
                server: row.server_name("server")?,
                number: row.number("number")?,
                fault: row.json("fault")?,
                opened_at: row.wall("opened_at")?,
                cleared_at: row.maybe_wall("cleared_at")?,
                told: Vec::new(),
            },
            telling: match moment {
                Some(moment) => Some(Telling {
                    moment,
                    channel: row.get("channel")?,
                }),
                None => None,
            },
        })
    }
}

const fn moment(moment: Moment) -> &'static str {
    match moment {
        Moment::Opened => "opened",
        Moment::Cleared => "cleared",
    }
}

/// With agent and server as the first two values.
fn of(sql: &'static str, agent: &AgentName, server: &ServerName) -> Statement {
    query(sql).bind(text(agent)).bind(server_text(server))
}

fn telling(
    sql: &'static str,
    (agent, server): (&AgentName, &ServerName),
    opening: u64,
    telling: &Telling,
) -> Statement {
    of(sql, agent, server)
        .bind(number(opening))
        .bind(moment(telling.moment))
        .bind(telling.channel.clone())
}

/// The statements that opening a notice may need.
struct Open {
    find: Statement,
    put: Statement,
    forget: Statement,
    change: Statement,
}

impl Open {
    async fn run(self, db: &mut SqliteConnection, fault: &str) -> sqlx::Result<Opening> {
        let open = self.find.fetch_optional(&mut *db).await?;
        let Some(open) = open else {
            self.put.execute(&mut *db).await?;
            self.forget.execute(&mut *db).await?;
            return Ok(Opening::Opened);
        };
        if open.try_get::<&str, _>("fault")? == fault {
            return Ok(Opening::Unchanged);
        }
        self.change.execute(&mut *db).await?;
        Ok(Opening::Changed)
    }
}

#[async_trait]
impl Notices for SqliteRecords {
    async fn open_notice(
        &self,
        agent: &AgentName,
        server: &ServerName,
        fault: &Fault,
        at: Wall,
    ) -> Result<Opening, Error> {
        let fault = self.json(fault)?;
        let open = Open {
            find: of(
                "SELECT fault FROM notices WHERE agent = ? AND server = ? AND cleared_at IS NULL",
                agent,
                server,
            ),
            put: of(
                "INSERT INTO notices (agent, server, number, fault, opened_at) VALUES (?, ?, 1, ?, ?) \
                 ON CONFLICT (agent, server) DO UPDATE SET number = notices.number + 1, \
                 fault = excluded.fault, opened_at = excluded.opened_at, cleared_at = NULL",
                agent,
                server,
            )
            .bind(fault.clone())
            .bind(at.0),
            forget: of(
                "DELETE FROM tellings WHERE agent = ? AND server = ?",
                agent,
                server,
            ),
            change: of(
                "UPDATE notices SET fault = ?3 WHERE agent = ?1 AND server = ?2",
                agent,
                server,
            )
            .bind(fault.clone()),
        };
        let opened = self
            .writer
            .write(|db| Box::pin(async move { open.run(db, &fault).await }));
        opened.await
    }

    async fn clear_notice(
        &self,
        agent: &AgentName,
        server: &ServerName,
        at: Wall,
    ) -> Result<bool, Error> {
        let statement = of(
            "UPDATE notices SET cleared_at = ?3 \
             WHERE agent = ?1 AND server = ?2 AND cleared_at IS NULL",
            agent,
            server,
        )
        .bind(at.0);
        Ok(self.execute(statement).await? > 0)
    }

    async fn notices(&self) -> Result<Vec<NoticeRecord>, Error> {
        let statement = query(
            "SELECT n.*, t.moment, t.channel FROM notices AS n LEFT JOIN tellings AS t \
             ON t.agent = n.agent AND t.server = n.server AND t.number = n.number \
             ORDER BY n.opened_at DESC, n.agent, n.server",
        );
        let mut notices: Vec<NoticeRecord> = Vec::new();
        for Line { notice, telling } in self.all(statement).await? {
            let key = |notice: &NoticeRecord| (notice.agent.clone(), notice.server.clone());
            match notices.last_mut() {
                Some(last) if key(last) == key(&notice) => last.told.extend(telling),
                Some(_) | None => {
                    let told = telling.into_iter().collect();
                    notices.push(NoticeRecord { told, ..notice });
                }
            }
        }
        for notice in &mut notices {
            notice.told.sort();
        }
        Ok(notices)
    }

    async fn claim_telling(
        &self,
        agent: &AgentName,
        server: &ServerName,
        number: u64,
        message: &Telling,
    ) -> Result<bool, Error> {
        let statement = telling(
            "INSERT INTO tellings (agent, server, number, moment, channel) \
             SELECT agent, server, number, ?4, ?5 FROM notices \
             WHERE agent = ?1 AND server = ?2 AND number = ?3 ON CONFLICT DO NOTHING",
            (agent, server),
            number,
            message,
        );
        Ok(self.execute(statement).await? > 0)
    }

    async fn release_telling(
        &self,
        agent: &AgentName,
        server: &ServerName,
        number: u64,
        message: &Telling,
    ) -> Result<bool, Error> {
        let statement = telling(
            "DELETE FROM tellings WHERE agent = ? AND server = ? AND number = ? AND moment = ? \
             AND channel = ?",
            (agent, server),
            number,
            message,
        );
        Ok(self.execute(statement).await? > 0)
    }

    async fn remove_notice(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error> {
        let tellings = of(
            "DELETE FROM tellings WHERE agent = ? AND server = ?",
            agent,
            server,
        );
        let notice = of(
            "DELETE FROM notices WHERE agent = ? AND server = ?",
            agent,
            server,
        );
        let removed = self.writer.write(|db| {
            Box::pin(async move {
                tellings.execute(&mut *db).await?;
                Ok(notice.execute(db).await?.rows_affected())
            })
        });
        Ok(removed.await? > 0)
    }

    async fn remove_cleared_notices(&self, before: Wall) -> Result<u64, Error> {
        let tellings = query(
            "DELETE FROM tellings WHERE (agent, server) IN \
             (SELECT agent, server FROM notices WHERE cleared_at < ?)",
        )
        .bind(before.0);
        let notices = query("DELETE FROM notices WHERE cleared_at < ?").bind(before.0);
        let removed = self.writer.write(|db| {
            Box::pin(async move {
                tellings.execute(&mut *db).await?;
                Ok(notices.execute(db).await?.rows_affected())
            })
        });
        removed.await
    }
}
