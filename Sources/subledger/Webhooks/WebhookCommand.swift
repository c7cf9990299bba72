import ArgumentParser
import Encoding
import Outbound
import Server
import Subscriptions

struct WebhookCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhook",
        abstract: "Deliver changes to endpoints, signed by Standard Webhooks, in order for each subscription.",
        discussion: """
            Changes of endpoints take effect within about a second, without a restart. Exit status 65 for an unknown \
            endpoint or a request that is not valid.
            """,
        subcommands: [
            WebhookAdd.self, WebhookList.self, WebhookTest.self, WebhookDisable.self, WebhookEnable.self,
            WebhookReplay.self, WebhookRotate.self,
        ])
}

extension Endpoint.Signature: ExpressibleByArgument {}
extension Subscriptions.Environment: ExpressibleByArgument {}

struct WebhookAdd: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Add an endpoint. Prints its id, and the key with which its receiver verifies.",
        discussion: """
            With v1a, the key is the server's public one. With v1, it is a secret that is shown once and kept in the file \
            of --webhook-keys.
            """)

    @Argument(help: "The URL, https://host/path.")
    var url: String

    @Option(help: ArgumentHelp("The app whose changes are delivered.", valueName: "bundle-id"))
    var app: String

    @Option(help: "production or sandbox.")
    var environment = Subscriptions.Environment.production

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp(
            "Only changes of these kinds: \(Change.Kind.allCases.map(\.rawValue).joined(separator: ", ")). [all]",
            valueName: "name"))
    var kind: [String] = []

    @Option(help: "v1a, with the server's key, or v1, with a secret of the endpoint.")
    var signature = Endpoint.Signature.v1a

    @Option(help: ArgumentHelp("Begin after this change; 0 for all. [the latest one]", valueName: "number"))
    var after: Int64?

    @OptionGroup var flags: WebhookCommandFlags

    func run() async throws {
        try await reportingFailures {
            var wish = EndpointAdmin.Wish(stream: StreamKey(app: app, environment: environment), url: url)
            wish.kinds = kind.isEmpty ? nil : kind
            wish.signature = signature
            wish.after = after
            let asked = wish
            let added = try await flags.withAdmin { try await $0.add(asked) }
            print("\(added.status.endpoint.id) \(added.key)")
        }
    }
}

struct WebhookList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List endpoints, one per line: id, state, what it gets, progress, URL.")

    @Flag(help: "Print one JSON object per line.")
    var json = false

    @OptionGroup var flags: WebhookCommandFlags

    func run() async throws {
        try await reportingFailures {
            for status in try await flags.withAdmin({ try await $0.store.list() }) {
                guard json else {
                    print(status.line)
                    continue
                }
                var writer = JSONWriter()
                status.write(to: &writer)
                print(writer.text)
            }
        }
    }
}

/// The endpoint that a command is about.
struct EndpointArgument: ParsableArguments {
    @Argument(help: "The endpoint's id, as shown by `webhook list`.")
    var id: String
}

struct WebhookTest: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Send a test message from this machine. Exit status 1 if it is not accepted.")

    @OptionGroup var endpoint: EndpointArgument
    @OptionGroup var flags: WebhookCommandFlags

    func run() async throws {
        try await reportingFailures {
            let tested = try await flags.withAdmin { try await $0.test(endpoint.id) }
            let status = tested.outcome.status.map { " \($0)" } ?? ""
            print("\(tested.outcome.class.rawValue)\(status) after \(tested.milliseconds) ms: \(tested.id)")
            if !tested.outcome.isSuccess { throw ExitCode.failure }
        }
    }
}

struct WebhookDisable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable", abstract: "Stop deliveries to an endpoint. Its place in the feed is kept.")

    @OptionGroup var endpoint: EndpointArgument
    @OptionGroup var flags: WebhookCommandFlags

    func run() async throws {
        try await reportingFailures {
            print(try await flags.withAdmin { try await $0.disable(endpoint.id) }.line)
        }
    }
}

struct WebhookEnable: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enable", abstract: "Continue deliveries where they stopped; what waits is sent at once.")

    @OptionGroup var endpoint: EndpointArgument
    @OptionGroup var flags: WebhookCommandFlags

    func run() async throws {
        try await reportingFailures {
            print(try await flags.withAdmin { try await $0.enable(endpoint.id) }.line)
        }
    }
}

struct WebhookReplay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Deliver again: one message, all from a place, or all that was given up.")

    @OptionGroup var endpoint: EndpointArgument

    @Option(help: ArgumentHelp("This message alone.", valueName: "number"))
    var number: Int64?

    @Option(help: ArgumentHelp("Everything after this message; 0 for everything.", valueName: "number"))
    var after: Int64?

    @Option(
        help: ArgumentHelp(
            "What was given up at this instant or later, such as 2026-11-27T00:00:00Z.", valueName: "time"))
    var failedSince: String?

    @OptionGroup var flags: WebhookCommandFlags

    private var replay: EndpointAdmin.Replay? {
        switch (number, after, failedSince) {
        case (let number?, nil, nil): .one(number)
        case (nil, let after?, nil): .after(after)
        case (nil, nil, let text?): Instant(iso8601: text).map { .failedSince($0) }
        default: nil
        }
    }

    func validate() throws {
        guard replay != nil else {
            throw ValidationError("Expected one of --number, --after and --failed-since with an ISO 8601 instant.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            guard let replay else { return }
            let count = try await flags.withAdmin { try await $0.replay(endpoint.id, replay) }
            print("\(count) \(count == 1 ? "message is" : "messages are") delivered again")
        }
    }
}

struct WebhookRotate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Replace the secret of an endpoint, or the server's key. The old one also signs for 24 hours.")

    @Argument(help: "An endpoint with signature v1. [the server's key, for all endpoints with v1a]")
    var id: String?

    @OptionGroup var flags: WebhookCommandFlags

    func run() async throws {
        try await reportingFailures {
            let key: String = try await flags.withAdmin { admin in
                if let id { try await admin.rotate(id) } else { try admin.rotateServerKey() }
            }
            print(key)
        }
    }
}
