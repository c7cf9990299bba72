import ArgumentParser
import Server
import Subscriptions

struct AccountTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account-token", abstract: "Tie purchases to users of the app at the App Store.",
        subcommands: [AccountTokenSet.self])
}

struct AccountTokenSet: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Set the account token of a purchase; a server may keep running.",
        discussion: """
            For a subscription, the current transaction and later ones have the token from then on. Asks on the terminal \
            first, unless --yes is passed. The request is stored as an event of the log, with its reason and the operator, \
            and so is Apple's answer. Prints the answer as a JSON object, and checks the subscription. Apple accepts no \
            purchase that a family member shares or that an organization has assigned. Requires the app's key in the apps \
            file. Exit status 65 if the purchase is unknown, or Apple refuses the token; 69 if the App Store or the \
            database cannot be asked; 78 if the app has no key or the App Store rejects it.
            """)

    @OptionGroup var asking: StoreSessionFlags

    @Option(help: ArgumentHelp("The subscription or one-time purchase.", valueName: "original-transaction-id"))
    var subscription: String

    @Option(help: ArgumentHelp("The appAccountToken of the user.", valueName: "uuid"))
    var token: String

    @Option(
        help: ArgumentHelp(
            "The environment: production or sandbox. [the one that has the purchase]", valueName: "name"))
    var environment: StreamEnvironment?

    @OptionGroup var write: WriteFlags

    func validate() throws {
        guard !subscription.isEmpty else { throw ValidationError("--subscription must not be empty.") }
        guard RequestIdentifier.isUUID(token) else { throw ValidationError("--token must be a UUID.") }
        guard token.lowercased() != CustomerKey.nilAccountToken else {
            throw ValidationError("--token must not be the nil UUID, which identifies no account.")
        }
        try WriteFlags.check(environment)
    }

    func run() async throws {
        try await reportingFailures {
            let result = try await StoreSession.with(asking) { session in try await change(session) }
            try result.report()
        }
    }

    private func change(_ session: StoreSession) async throws -> StoreChange.Result {
        let app = session.app.bundleId
        let subject: StoreChange.Subject
        switch try await StoreChange.subject(subscription, in: environment?.value, session) {
        case .success(let found): subject = found
        case .failure(let problem): return problem.result(subscription, of: app)
        }
        let token = token.lowercased()
        return try await StoreChange(
            session: session, flags: write, environment: subject.environment,
            change: .setAccountToken(originalTransactionId: subscription, appAccountToken: token),
            requestIdentifier: nil,
            question: [
                """
                This sets the account token of purchase \(subscription) of \(app) (\(subject.environment.rawValue)) to \
                \(token).
                """,
                subject.description(at: SystemClock.now()),
                "The current transaction and later ones get it, and its user owns them unless a link says otherwise.",
            ]
        ).run()
    }
}
