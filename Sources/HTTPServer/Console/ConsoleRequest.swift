import Console
import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Readers
import Subscriptions

/// A request of a session, with what every page needs.
struct ConsoleRequest: Sendable {
    let session: ConsoleSession
    let query: ConsoleQuery
    let streams: [StreamState]
    /// The chosen stream; nil if there is none at all.
    let stream: StreamState?
    let now: Instant
    /// The address of the page with the parameters of the request.
    let address: Address
    let preferences: ConsolePreferences
    /// Whether people can act for customers on this server.
    let hasActs: Bool

    var frame: PageFrame {
        PageFrame(
            address: address, streams: streams, stream: stream, now: now, csrf: session.csrf,
            isAdmin: session.scope.includes(.admin), mayAct: hasActs && session.scope.includes(.operate),
            theme: preferences.theme, hasKeys: preferences.hasKeys)
    }

    /// The chosen stream, and its key.
    func someStreamKey() throws(ConsoleProblem) -> (StreamState, StreamKey) {
        let stream = try someStream()
        guard let environment = Environment(rawValue: stream.environment) else {
            throw ConsoleProblem(.notFound, "No such stream", "The environment is of a newer release.")
        }
        return (stream, StreamKey(app: stream.app, environment: environment))
    }

    /// The chosen stream, for pages that show nothing without one.
    func someStream() throws(ConsoleProblem) -> StreamState {
        guard let stream else {
            throw ConsoleProblem(.notFound, "Nothing yet", "No event has arrived, so there is nothing to look at.")
        }
        return stream
    }
}

/// The parameters of a page. Forms send empty fields, which count as absent.
struct ConsoleQuery: Sendable {
    private let values: [(name: String, value: String)]
    /// The contents of the files of a form.
    private let files: [(name: String, content: [UInt8])]

    init(_ request: Request) {
        files = []
        // Forms write a space as "+", which the framework's parameters leave as it is.
        values = FormFields.parse(Array((request.uri.query ?? "").utf8))
    }

    init(form: [(name: String, value: String)], files: [(name: String, content: [UInt8])] = []) {
        values = form
        self.files = files
    }

    /// The content of a file, or else of a text field that may be as long as the form; empty if there is neither.
    func content(file: String, text: String) -> [UInt8] {
        if let content = files.last(where: { $0.name == file })?.content, !content.isEmpty { return content }
        return Array((values.last { $0.name == text }?.value ?? "").utf8)
    }

    func text(_ name: String) throws(ConsoleProblem) -> String? {
        guard let value = values.last(where: { $0.name == name })?.value, !value.isEmpty else { return nil }
        guard !value.utf8.contains(0), value.utf8.count <= Limits.consoleTextBytesMax else {
            throw ConsoleProblem(.badRequest, "Bad request", "\(name) is too long, or contains a NUL character.")
        }
        return value
    }

    func number(_ name: String) throws(ConsoleProblem) -> Int64? {
        guard let text = try text(name) else { return nil }
        guard let number = Int64(text), number >= 0 else {
            throw ConsoleProblem(.badRequest, "Bad request", "\(name) must be a number from 0.")
        }
        return number
    }

    /// Accepts ISO 8601, and what the pages write: `2026-10-03 03:44:10`, in UTC; seconds or the time may be missing.
    ///
    /// - Parameter label: That of the field; nil if the parameter has none.
    func instant(_ name: String, label: String? = nil) throws(ConsoleProblem) -> Instant? {
        guard let text = try text(name) else { return nil }
        let joined = text.replacing(" ", with: "T")
        for end in ["", "Z", ":00Z"] {
            if let instant = Instant(iso8601: joined + end) { return instant }
        }
        throw ConsoleProblem(
            .badRequest, "Bad request",
            "\(label.map { "“\($0)”" } ?? name) must be a time such as 2026-10-03 03:44:10, which is read as UTC.")
    }

    /// A day such as `2026-10-03`.
    func day(_ name: String) throws(ConsoleProblem) -> String? {
        guard let text = try text(name) else { return nil }
        guard text.utf8.count == 10, Instant(iso8601: text) != nil else {
            throw ConsoleProblem(.badRequest, "Bad request", "\(name) must be a day such as 2026-10-03.")
        }
        return text
    }

    /// Refuses parameters that the page does not have: a page that ignored a misspelt clock would answer for now.
    func refuseOthers(than names: [String]) throws(ConsoleProblem) {
        guard let other = values.first(where: { !names.contains($0.name) }) else { return }
        throw ConsoleProblem(
            .badRequest, "Bad request",
            "The page has no parameter \(other.name.prefix(40)). It has: \(names.joined(separator: ", ")).")
    }

    /// The address with those of the named parameters that have a value.
    func address(_ base: Address, keeping names: [String]) -> Address {
        names.reduce(base) { address, name in
            guard let value = values.last(where: { $0.name == name })?.value, !value.isEmpty else { return address }
            return address.with(name, value)
        }
    }
}

/// Why a page cannot be shown.
struct ConsoleProblem: Error {
    let status: HTTPResponse.Status
    let title: String
    let detail: String
    var choices: [(text: String, address: Address)]

    init(
        _ status: HTTPResponse.Status, _ title: String, _ detail: String,
        choices: [(text: String, address: Address)] = []
    ) {
        self.status = status
        self.title = title
        self.detail = detail
        self.choices = choices
    }
}

/// What a browser remembers beside the session.
struct ConsolePreferences: Sendable {
    var theme = PageFrame.Theme.system
    var hasKeys = true

    static let cookie = "subledger-console"

    init() {}

    init(_ text: String?) {
        let words = text?.split(separator: ".") ?? []
        theme = words.compactMap { PageFrame.Theme(rawValue: String($0)) }.first ?? .system
        hasKeys = !words.contains("nokeys")
    }

    var text: String { hasKeys ? theme.rawValue : "\(theme.rawValue).nokeys" }
}
