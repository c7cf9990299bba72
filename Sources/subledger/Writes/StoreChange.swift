import AppStore
import ArgumentParser
import Encoding
import EventLog
import Readers
import Server
import StoreClient
import Subscriptions

/// A change at the store, from the operator's question to the line with Apple's answer.
struct StoreChange {
    let session: StoreSession
    let flags: WriteFlags
    let environment: Subscriptions.Environment
    let change: StoreWrite.Change
    /// The identifier that the operator has chosen; nil to make one.
    let requestIdentifier: String?
    /// What the operator is asked about.
    let question: [String]

    private var stream: StreamKey { StreamKey(app: session.app.bundleId, environment: environment) }

    /// What the command prints, and how it ends.
    struct Result: Sendable {
        var line: String?
        var problem: (text: String, exitCode: ExitCode)?

        func report() throws {
            if let line { print(line) }
            guard let problem else { return }
            printError("subledger: \(problem.text)")
            throw problem.exitCode
        }
    }

    /// Asks the operator, then Apple, and then about the subscription once, so that the log has what Apple changed.
    ///
    /// - Throws: ``ReadError``, ``AppendError``: then Apple was not asked.
    func run() async throws -> Result {
        guard flags.yes || Confirmation.terminal.agrees(to: question) else {
            return Result(problem: ("not confirmed: nothing was requested", .failure))
        }
        let request = StoreWrite(
            change, requestIdentifier: requestIdentifier ?? RequestIdentifier.made(), by: flags.operatorName,
            reason: flags.reason)
        let writer = StoreWriter(
            client: session.store.api, log: WriteLog(pool: session.poller, appender: session.appender),
            clock: session.store.clock)
        let outcome = try await writer.write(
            request, isIdentifierChosen: requestIdentifier != nil, of: session.app, in: stream)
        switch outcome {
        case .open(let placed):
            return Result(
                problem: (
                    """
                    request \(placed.write.requestIdentifier) of \(placed.receivedAt) for another change has no answer: \
                    repeat it, or pass a new --request-identifier to make both changes
                    """, .dataError
                ))
        case .identifierUsed(let placed):
            return Result(
                problem: (
                    "request \(placed.write.requestIdentifier) is for another change: expected a new identifier",
                    .dataError
                ))
        case .known: preconditionFailure("requests of commands have no idempotency key")
        case .asked(let write, let recorded, let repeats):
            let check = try await check(after: write)
            return Result(
                line: line(write, recorded, repeats: repeats, check),
                problem: Self.problem(write.answer, recorded))
        }
    }

    /// Asks about the subscription that was changed; nil if none was, or not for sure.
    private func check(after write: StoreWrite) async throws -> CheckRecord? {
        guard write.answer?.result == .accepted, let id = write.change.originalTransactionId else { return nil }
        let checker = Checker(
            apps: [session.app], store: session.store, verifier: session.verifier, pool: session.poller,
            archive: session.archive, appender: session.appender, logger: session.logger)
        // The change was made: that it could not be looked at is no failure of it.
        return try? await checker.checkNow(id, of: session.app, in: environment)?.record
    }

    private func line(
        _ write: StoreWrite, _ recorded: Swift.Result<Int64, AppendError>, repeats: WriteLog.Placed?,
        _ check: CheckRecord?
    ) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", session.app.bundleId)
            writer.member("environment", environment.rawValue)
            write.writeMembers(to: &writer)
            writer.member("repeats", repeats?.position)
            writer.member("position", try? recorded.get())
            guard let check else { return }
            writer.key("check")
            writer.object { writer in
                writer.member("result", check.result.label)
                writer.member("position", check.result.position)
            }
        }
        return writer.text
    }

    /// Why the change is not made for sure; nil if it is.
    private static func problem(
        _ answer: StoreWrite.Answer?, _ recorded: Swift.Result<Int64, AppendError>
    ) -> (text: String, exitCode: ExitCode)? {
        if let refusal = answer?.refusal { return (refusal, .dataError) }
        if answer?.problem == StoreWrite.Answer.keyRejected {
            return ("the App Store rejects the key of the app", .configurationError)
        }
        if answer?.result != .accepted {
            let problem = answer?.problem ?? "no answer"
            return (
                """
                the App Store does not answer (\(problem)), and may have made the change: repeat the command, which \
                makes it only once
                """, .unavailable
            )
        }
        if case .failure(let error) = recorded {
            return (
                "the change is made, and its answer was not stored: repeat the command, which stores it (\(error))",
                .unavailable
            )
        }
        return nil
    }
}

extension StoreChange {
    /// A subscription of the ledger.
    struct Subject {
        let environment: Subscriptions.Environment
        let known: SubscriptionReader.Stored

        /// One line for the operator.
        func description(at now: Instant) -> String {
            let subscription = known.subscription
            let product =
                subscription.period(at: now)?.productId ?? subscription.transactions.last?.transaction.productId
            return "As far as the ledger knows, it is \(subscription.status(at: now).rawValue)"
                + (product.map { ", product \($0)." } ?? ".")
        }
    }

    /// The subscription with an original transaction id, in the environment that the ledger knows it in. Writes are never
    /// tried in one environment after the other.
    static func subject(
        _ originalTransactionId: String, in environment: Subscriptions.Environment?, _ session: StoreSession
    ) async throws -> Swift.Result<Subject, SubjectProblem> {
        let reader = SubscriptionReader(pool: session.poller)
        var found: [Subject] = []
        for candidate in environment.map({ [$0] }) ?? [.production, .sandbox] {
            let stream = StreamKey(app: session.app.bundleId, environment: candidate)
            let stored = try await reader.subscriptions([originalTransactionId], in: stream)
            found += stored.map { Subject(environment: candidate, known: $0) }
        }
        guard let only = found.first else { return .failure(.unknown) }
        return found.count == 1 ? .success(only) : .failure(.ambiguous)
    }

    enum SubjectProblem: Error {
        case unknown
        case ambiguous

        func result(_ id: String, of app: String) -> Result {
            switch self {
            case .unknown:
                Result(
                    problem: (
                        "no subscription \(id) of \(app) is known: read it with `subledger backfill --ids-file`",
                        .dataError
                    ))
            case .ambiguous:
                Result(problem: ("both environments have subscription \(id): pass --environment", .dataError))
            }
        }
    }
}
