//! The server as rmcp sees it: one value for each session, and for each request from 2026-07-28 on.
#![allow(
    deprecated,
    reason = "logging is deprecated by SEP-2577, and still spoken"
)]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CompletionInfo, GetPromptRequestParams, GetPromptResponse,
    GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult,
    ListToolsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion,
    ReadResourceDirectoryRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use crate::catalog::Catalog;
use crate::changes::{Change, Changes};
use crate::content;
use crate::interaction::{Input, Interactions, Outcome, is_modern};
use crate::waits::Waits;
use crate::{skills, tools};

/// What all sessions and requests have in common.
pub(crate) struct Shared {
    catalog: Catalog,
    changes: Changes,
    interactions: Interactions,
    revisions: Vec<ProtocolVersion>,
    tasks: TaskManager,
    waits: Waits,
}

impl Shared {
    pub(crate) fn new(revisions: Vec<ProtocolVersion>) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(Self {
            catalog: Catalog::load()?,
            changes: Changes::new(),
            interactions: Interactions::load()?,
            revisions,
            tasks: TaskManager::new(),
            waits: Waits::default(),
        })
    }
}

pub(crate) struct Everything {
    shared: Arc<Shared>,
    log_level: Mutex<LoggingLevel>,
    /// Resources that this session watches; a session's own, and only before 2026-07-28.
    subscriptions: Arc<Mutex<BTreeSet<String>>>,
}

impl Everything {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            log_level: Mutex::new(LoggingLevel::Info),
            subscriptions: Arc::default(),
        }
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.shared.changes
    }

    pub(crate) fn interactions(&self) -> &Interactions {
        &self.shared.interactions
    }

    pub(crate) fn tasks(&self) -> &TaskManager {
        &self.shared.tasks
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.shared.waits
    }

    pub(crate) fn log_level(&self) -> LoggingLevel {
        *self.log_level.lock()
    }
}

fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri })))
}

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new(
            "steadfast-everything",
            env!("CARGO_PKG_VERSION"),
        ))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(self.shared.revisions.clone())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = self.shared.catalog.tools.clone();
        for tool in tools
            .iter_mut()
            .filter(|tool| tool.name == "test_trigger_tool_change")
        {
            // The change that this tool announces is a real one, and leaves the names and their order as they are.
            let count = self.changes().count(Change::Tools);
            tool.description =
                Some(format!("Changes the list of tools; {count} times so far").into());
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.catalog.tool(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, request, context).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut resources = self.shared.catalog.resources.clone();
        resources.push(skills::manifest());
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            self.shared.catalog.resource_templates.clone(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &request.uri;
        if let Some(result) = skills::read(uri)? {
            return Ok(result.into());
        }
        let updates = self.changes().count(Change::WatchedResource);
        content::resource(uri, updates)?
            .map(Into::into)
            .ok_or_else(|| not_found(uri))
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        skills::directory(&request.uri)
    }

    async fn list_skills(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(skills::list())
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        skills::get(&request.uri)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut prompts = self.shared.catalog.prompts.clone();
        for prompt in prompts
            .iter_mut()
            .filter(|prompt| prompt.name == "test_simple_prompt")
        {
            let count = self.changes().count(Change::Prompts);
            prompt.description = Some(format!(
                "A prompt without arguments; the list changed {count} times"
            ));
        }
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = &request.name;
        if let Some(result) = content::prompt(name, request.arguments.as_ref())? {
            return Ok(result.into());
        }
        let dialogue = self
            .shared
            .catalog
            .prompts
            .iter()
            .find(|prompt| prompt.name == *name)
            .and_then(|prompt| self.interactions().dialogue(&prompt.name))
            .ok_or_else(|| ErrorData::invalid_params(format!("unknown prompt: {name}"), None))?;
        let input = Input {
            responses: request.input_responses,
            state: request.request_state,
        };
        match self
            .interactions()
            .run(name, dialogue, input, &context)
            .await?
        {
            Outcome::Ask(question) => Ok(question.into()),
            Outcome::Answered(answers) => {
                let answers = json!(answers).to_string();
                content::prompt_of(vec![content::text(&format!("Context: {answers}"))])
                    .map(Into::into)
            }
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let typed = &request.argument.value;
        let values = ["paris", "park", "party", "test"]
            .into_iter()
            .filter(|value| value.starts_with(typed.as_str()))
            .map(str::to_owned)
            .collect();
        let completion = CompletionInfo::with_all_values(values)
            .map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            // 2026-07-28 has the level in each request instead.
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.log_level.lock() = request.level;
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.lock().insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.lock().remove(&request.uri);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.changes()
            .tell(context.peer, Arc::clone(&self.subscriptions));
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.changes().follow(&context).await;
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks()
            .get_task(&request.task_id)
            .map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks()
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks().cancel_task(&request.task_id)
    }
}
