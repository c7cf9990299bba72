import AppStore
import ArgumentParser
import Encoding
import EventLog
import StoreClient
import Subscriptions

struct ExtendStatus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Print how far Apple is with the extension of all subscriptions of a product.",
        discussion: """
            Apple needs hours or days. Prints a JSON object; when the extension is complete, with the numbers of \
            subscriptions that were extended and that were not. Exit status 65 if no extension of the product was \
            requested, or Apple does not know it; 69 if the App Store or the database cannot be asked; 78 if the app has \
            no key or the App Store rejects it.
            """)

    @OptionGroup var asking: StoreSessionFlags

    @Option(help: ArgumentHelp("The product.", valueName: "product-id"))
    var product: String

    @Option(help: ArgumentHelp("The environment: production or sandbox. [production]", valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        help: ArgumentHelp("The request's id. [that of the last request in the log]", valueName: "uuid"))
    var requestIdentifier: String?

    func validate() throws {
        try WriteFlags.check(environment)
        guard let requestIdentifier else { return }
        guard RequestIdentifier.isUUID(requestIdentifier) else {
            throw ValidationError("--request-identifier must be a UUID.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let result = try await StoreSession.with(asking) { session in try await ask(session) }
            try result.report()
        }
    }

    private func ask(_ session: StoreSession) async throws -> StoreChange.Result {
        let environment = environment?.value ?? .production
        guard let host = ReceiptHost(environment: environment) else { return StoreChange.Result() }
        let stream = StreamKey(app: session.app.bundleId, environment: environment)
        guard let identifier = try await identifier(in: stream, session) else {
            return StoreChange.Result(
                problem: ("no extension of all subscriptions of \(product) was requested", .dataError))
        }
        let request = ExtendAllStatusRequest(productId: product, requestIdentifier: identifier)
        let outcome = await session.store.api.ask(request, app: session.app, host: host, priority: .handIn)
        switch outcome {
        case .answered(let answer): return StoreChange.Result(line: line(answer, identifier, stream))
        case .refused(let refusal): return StoreChange.Result(problem: (refusal.description, .dataError))
        case .rejected:
            return StoreChange.Result(problem: ("the App Store rejects the key of the app", .configurationError))
        case .unreadable(let label):
            return StoreChange.Result(problem: ("the App Store does not answer (\(label))", .unavailable))
        case .unavailable(let reason, _):
            return StoreChange.Result(problem: ("the App Store does not answer (\(reason))", .unavailable))
        }
    }

    private func identifier(in stream: StreamKey, _ session: StoreSession) async throws -> String? {
        if let requestIdentifier { return requestIdentifier }
        let log = WriteLog(pool: session.poller, appender: session.appender)
        return try await log.writes(about: product, in: stream)
            .first { $0.write.change.action == .extendAll }?.write.requestIdentifier
    }

    private func line(_ answer: ExtendAllStatusRequest.Answer, _ identifier: String, _ stream: StreamKey) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", stream.app)
            writer.member("environment", stream.environment.rawValue)
            writer.member("productId", product)
            writer.member("requestIdentifier", identifier)
            writer.member("complete", answer.isComplete)
            writer.member("completeDate", answer.completeDate)
            writer.member("succeeded", answer.succeeded)
            writer.member("failed", answer.failed)
        }
        return writer.text
    }
}
