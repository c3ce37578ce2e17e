//! The methods of requests, and what the versions of MCP say of each.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::version::Era;

macro_rules! methods {
    ($(#[doc = $doc:literal] $method:ident = $name:literal,)*) => {
        /// A method of a request that this gateway serves, sends, or routes by its headers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method { $(#[doc = $doc] $method,)* }

        impl Method {
            #[cfg(test)]
            const ALL: &[Self] = &[$(Self::$method,)*];

            /// Returns the method of this name; `None` if it is none of these.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$method),)*
                    _ => None,
                }
            }

            /// Returns the name of the method in a message.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$method => $name,)* }
            }
        }
    };
}

methods! {
    /// `initialize`: begins a session.
    Initialize = "initialize",
    /// `server/discover`: asks what the server is and can do.
    Discover = "server/discover",
    /// `ping`: asks whether the other side still answers.
    Ping = "ping",
    /// `logging/setLevel`: sets the lowest level of log messages.
    SetLogLevel = "logging/setLevel",
    /// `tools/list`: lists tools.
    ListTools = "tools/list",
    /// `tools/call`: calls a tool.
    CallTool = "tools/call",
    /// `prompts/list`: lists prompts.
    ListPrompts = "prompts/list",
    /// `prompts/get`: fetches a prompt.
    GetPrompt = "prompts/get",
    /// `resources/list`: lists resources.
    ListResources = "resources/list",
    /// `resources/templates/list`: lists templates of the URIs of resources.
    ListTemplates = "resources/templates/list",
    /// `resources/read`: reads a resource.
    ReadResource = "resources/read",
    /// `resources/subscribe`: asks to be told when a resource changes.
    Subscribe = "resources/subscribe",
    /// `resources/unsubscribe`: ends that.
    Unsubscribe = "resources/unsubscribe",
    /// `subscriptions/listen`: opens a stream of notifications.
    Listen = "subscriptions/listen",
    /// `completion/complete`: asks how the value of an argument may go on.
    Complete = "completion/complete",
    /// `tasks/get`: asks for the state of a task; in the modern era also for its result.
    GetTask = "tasks/get",
    /// `tasks/result`: waits for the result of a task.
    TaskResult = "tasks/result",
    /// `tasks/update`: answers what a task asks for.
    UpdateTask = "tasks/update",
    /// `tasks/cancel`: cancels a task.
    CancelTask = "tasks/cancel",
    /// `sampling/createMessage`: a server asks the client for an answer of its model.
    CreateMessage = "sampling/createMessage",
    /// `elicitation/create`: a server asks the user of the client for input.
    Elicit = "elicitation/create",
    /// `roots/list`: a server asks for the folders that the client works in.
    ListRoots = "roots/list",
}

/// The member of `params` that names the item or the task that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemParam {
    /// `name`: a tool or a prompt.
    Name,
    /// `uri`: a resource.
    Uri,
    /// `taskId`: a task.
    TaskId,
}

impl Method {
    /// Whether clients of this era send the method. In the modern era servers do not send requests: they ask for input
    /// in a result instead (MCP 2026-07-28, multi-round-trip requests).
    pub const fn is_of(self, era: Era) -> bool {
        match self {
            Self::Initialize | Self::Ping | Self::SetLogLevel | Self::TaskResult => matches!(era, Era::Legacy),
            Self::Subscribe | Self::Unsubscribe => matches!(era, Era::Legacy),
            Self::Discover | Self::Listen | Self::UpdateTask => matches!(era, Era::Modern),
            Self::GetTask | Self::CancelTask => true,
            Self::ListTools | Self::ListPrompts | Self::ListResources | Self::ListTemplates => true,
            Self::CallTool | Self::GetPrompt | Self::ReadResource | Self::Complete => true,
            Self::CreateMessage | Self::Elicit | Self::ListRoots => false,
        }
    }

    /// The methods that chains can cover.
    pub const CHAINED: [Self; 9] = [
        Self::CallTool,
        Self::GetPrompt,
        Self::ReadResource,
        Self::CreateMessage,
        Self::Elicit,
        Self::ListTools,
        Self::ListPrompts,
        Self::ListResources,
        Self::ListTemplates,
    ];

    /// Whether servers ask this of clients, during a request of the client.
    pub const fn is_question(self) -> bool {
        matches!(self, Self::CreateMessage | Self::Elicit | Self::ListRoots)
    }

    /// Whether the method is about a task that an earlier call began (SEP-2663; MCP 2025-11-25, tasks).
    pub const fn is_of_task(self) -> bool {
        matches!(self, Self::GetTask | Self::TaskResult | Self::UpdateTask | Self::CancelTask)
    }

    /// Returns which parameter names the item or the task of a request; `None` if a request is about none.
    pub const fn item(self) -> Option<ItemParam> {
        match self {
            Self::CallTool | Self::GetPrompt => Some(ItemParam::Name),
            Self::ReadResource | Self::Subscribe | Self::Unsubscribe => Some(ItemParam::Uri),
            Self::GetTask | Self::UpdateTask | Self::CancelTask => Some(ItemParam::TaskId),
            // The modern era, whose headers repeat this, does not have it.
            Self::TaskResult => None,
            Self::Initialize | Self::Discover | Self::Ping | Self::SetLogLevel | Self::Complete | Self::Listen => None,
            Self::ListTools | Self::ListPrompts | Self::ListResources | Self::ListTemplates => None,
            Self::CreateMessage | Self::Elicit | Self::ListRoots => None,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| de::Error::custom(format_args!("{name:.64} is not a method that is known")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_found_by_its_name() {
        for method in Method::ALL.iter().copied() {
            assert_eq!(Method::parse(method.as_str()), Some(method));
            let json = serde_json::to_string(&method).unwrap();
            assert_eq!(serde_json::from_str::<Method>(&json).unwrap(), method);
        }
        assert_eq!(Method::parse("Tools/Call"), None);
        assert!(serde_json::from_str::<Method>("\"tools/eat\"").is_err());
    }
}
