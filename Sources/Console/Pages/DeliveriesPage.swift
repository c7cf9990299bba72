import Encoding

/// An endpoint to which changes or notifications are delivered, as pages show it.
package struct DeliveryEndpoint: Sendable {
    package enum State: Sendable, Hashable {
        case active
        case failing(since: Instant)
        /// The reason is a word of the API, such as `gone`.
        case disabled(reason: String, since: Instant)
    }

    package let id: String
    /// Whether it gets notifications as the store sent them, instead of changes.
    package let isForward: Bool
    /// Scheme and host: the rest of a URL can contain a secret.
    package let receiver: String
    /// Nil for all.
    package let kinds: [String]?
    package let signature: String
    package let state: State
    /// Everything up to this number of the feed is settled, or waits for another attempt.
    package let number: Int64
    /// The end of the feed.
    package let head: Int64
    package let waiting: Int64
    package let exhausted: Int64
    package let succeededAt: Instant?

    package init(
        id: String, isForward: Bool, receiver: String, kinds: [String]?, signature: String, state: State,
        number: Int64, head: Int64, waiting: Int64, exhausted: Int64, succeededAt: Instant?
    ) {
        self.id = id
        self.isForward = isForward
        self.receiver = receiver
        self.kinds = kinds
        self.signature = signature
        self.state = state
        self.number = number
        self.head = head
        self.waiting = waiting
        self.exhausted = exhausted
        self.succeededAt = succeededAt
    }

    fileprivate var whatItGets: String {
        guard let kinds else { return isForward ? "all notifications" : "all changes" }
        return kinds.joined(separator: ", ")
    }

    fileprivate var stateText: String {
        switch state {
        case .active: "active"
        case .failing(let since): "failing since \(since.shortText)"
        case .disabled(let reason, let since): "disabled since \(since.shortText): \(Self.words(of: reason))"
        }
    }

    private static func words(of reason: String) -> String {
        switch reason {
        case "operator": "by an operator"
        case "gone": "its receiver answered 410"
        case "failing": "five days without a success"
        case "removed": "the apps file no longer names it"
        default: reason
        }
    }
}

/// The endpoints of an app in an environment.
package struct DeliveriesPage: ConsolePage {
    package let endpoints: [DeliveryEndpoint]
    package let address: Address

    package init(endpoints: [DeliveryEndpoint], address: Address) {
        self.endpoints = endpoints
        self.address = address
    }

    package var title: String { "Deliveries" }
    package var section: ConsoleSection? { .deliveries }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }

    package var tables: [ConsoleTable] {
        [
            ConsoleTable(
                "endpoints", caption: "Endpoints",
                columns: [
                    .init("Endpoint"), .init("Receiver"), .init("Gets"), .init("State"),
                    .init("Not yet sent", isNumber: true), .init("To be tried again", isNumber: true),
                    .init("Given up", isNumber: true), .init("Last success"),
                ],
                rows: endpoints.map { endpoint in
                    [
                        .link(endpoint.id, Address("deliveries", endpoint.id).with("stream", stream)),
                        .text(endpoint.receiver), .text(endpoint.whatItGets), .text(endpoint.stateText),
                        .number(max(endpoint.head - endpoint.number, 0)), .number(endpoint.waiting),
                        .number(endpoint.exhausted), .optional(endpoint.succeededAt),
                    ]
                },
                empty:
                    "None yet. An endpoint is a URL of yours, to which each change of an entitlement is posted, signed."
            )
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        for table in tables { table.write(on: address, to: &html) }
        html.element("section", [.text(.labelledby, "add")]) { html in
            html.element("h2", [.text(.id, "add")], text: "Add an endpoint")
            guard frame.isAdmin else {
                html.element("p", [.class("muted")], text: "Adding one needs a token of scope admin.")
                return
            }
            html.element("form", [.text(.method, "post"), .action(Address("deliveries")), .class("filters")]) { html in
                html.hidden("csrf", frame.csrf)
                if let stream { html.hidden("stream", stream) }
                html.field("url", "URL", isRequired: true)
                html.field("kinds", "Kinds of changes, with commas; empty for all", isRequired: false)
                html.choice(
                    "signature", "Signature",
                    [("v1a", "v1a: the server's key, which is public"), ("v1", "v1: a secret of its own")])
                html.element("button", [.class("primary")], text: "Add")
            }
        }
    }
}

/// An endpoint with its latest attempts, and what an administrator can do with it.
package struct DeliveryPage: ConsolePage {
    package let endpoint: DeliveryEndpoint
    package let attempts: [Attempt]
    /// What was just done; nil if nothing was.
    package let notice: Notice?
    package let address: Address

    package struct Attempt: Sendable {
        package let at: Instant
        package let number: Int64
        /// A word of the API, such as `success`.
        package let result: String
        package let status: Int?
        package let milliseconds: Int

        package init(at: Instant, number: Int64, result: String, status: Int?, milliseconds: Int) {
            self.at = at
            self.number = number
            self.result = result
            self.status = status
            self.milliseconds = milliseconds
        }
    }

    package enum Notice: Sendable {
        /// With the key by which its receiver verifies.
        case added(key: String)
        case tested(result: String, status: Int?, milliseconds: Int)
        case disabled, enabled
        case replayed(messages: Int64)
    }

    package init(endpoint: DeliveryEndpoint, attempts: [Attempt], notice: Notice?, address: Address) {
        self.endpoint = endpoint
        self.attempts = attempts
        self.notice = notice
        self.address = address
    }

    package var title: String { "Endpoint \(endpoint.id)" }
    package var section: ConsoleSection? { .deliveries }
    private var stream: String? { address.query.first { $0.name == "stream" }?.value }

    package var tables: [ConsoleTable] {
        [
            ConsoleTable(
                "attempts", caption: "Latest attempts",
                columns: [
                    .init("Time"), .init("Message", isNumber: true), .init("Result"), .init("Status", isNumber: true),
                    .init("Milliseconds", isNumber: true),
                ],
                rows: attempts.map { attempt in
                    [
                        .time(attempt.at), .number(attempt.number), .text(attempt.result),
                        .optional(attempt.status.map(Int64.init)), .number(Int64(attempt.milliseconds)),
                    ]
                }, empty: "Nothing was sent to it yet: send a test message, or wait for the next change.")
        ]
    }

    package func write(in frame: PageFrame, to html: inout HTMLWriter) {
        if let notice {
            html.element("section", [.class("note"), .text(.role, "status")]) { html in Self.write(notice, to: &html) }
        }
        html.element("dl", [.class("facts")]) { html in
            for (name, value) in [
                ("Receiver", endpoint.receiver), ("Gets", endpoint.whatItGets), ("Signature", endpoint.signature),
                ("State", endpoint.stateText),
                (
                    "Place",
                    "message \(endpoint.number.grouped) of \(endpoint.head.grouped); to be tried again: "
                        + "\(endpoint.waiting.grouped), given up: \(endpoint.exhausted.grouped)"
                ),
            ] {
                html.item(name) { $0.text(value) }
            }
        }
        writeActs(in: frame, to: &html)
        for table in tables { table.write(on: address, to: &html) }
    }

    private static func write(_ notice: Notice, to html: inout HTMLWriter) {
        switch notice {
        case .added(let key):
            html.element("p", text: "Added. Its receiver verifies messages with this key, which is shown once:")
            html.element("p") { $0.id(key) }
        case .tested(let result, let status, let milliseconds):
            let answer = status.map { "\(result), status \($0)" } ?? result
            html.element("p", text: "A test message was sent: \(answer), after \(milliseconds) ms.")
        case .disabled: html.element("p", text: "Disabled. Nothing is lost: changes wait until it is enabled.")
        case .enabled: html.element("p", text: "Enabled. It continues where it stopped.")
        case .replayed(let messages): html.element("p", text: "Messages that are delivered again: \(messages.grouped).")
        }
    }

    private func writeActs(in frame: PageFrame, to html: inout HTMLWriter) {
        html.element("section", [.text(.labelledby, "acts")]) { html in
            html.element("h2", [.text(.id, "acts")], text: "What you can do")
            guard frame.isAdmin else {
                html.element(
                    "p", [.class("muted")], text: "Testing, disabling and replaying need a token of scope admin.")
                return
            }
            var isDisabled = false
            if case .disabled = endpoint.state { isDisabled = true }
            if !endpoint.isForward {
                act("test", "Send a test message", in: frame, to: &html) { _ in }
            }
            act(isDisabled ? "enable" : "disable", isDisabled ? "Enable" : "Disable", in: frame, to: &html) { _ in }
            act("replay-after", "Deliver everything after a message again", in: frame, to: &html) { html in
                html.field("after", "Message, from 0 to \(endpoint.head)", isRequired: true)
            }
            act("replay-failed", "Deliver what was given up again", in: frame, to: &html) { html in
                html.field("failedSince", "Given up at or after, UTC, such as 2026-10-03 03:44", isRequired: true)
            }
        }
    }

    private func act(
        _ name: String, _ label: String, in frame: PageFrame, to html: inout HTMLWriter,
        fields: (inout HTMLWriter) -> Void
    ) {
        let form: [Attribute] = [
            .text(.method, "post"), .action(Address("deliveries", endpoint.id)), .class("filters"),
        ]
        html.element("form", form) { html in
            html.hidden("csrf", frame.csrf)
            if let stream { html.hidden("stream", stream) }
            html.hidden("do", name)
            fields(&html)
            html.element("button", text: label)
        }
    }
}
