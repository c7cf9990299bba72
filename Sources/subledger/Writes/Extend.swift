import AppStore
import ArgumentParser
import Encoding
import Server
import Subscriptions

struct Extend: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Give subscribers free days at the end of their period.",
        subcommands: [ExtendRequestCommand.self, ExtendStatus.self], defaultSubcommand: ExtendRequestCommand.self)
}

extension StoreWrite.ExtensionReason: ExpressibleByArgument {}

struct ExtendRequestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "request",
        abstract: "Extend one subscription, or all active ones of a product; a server may keep running.",
        discussion: """
            Asks on the terminal first, unless --yes is passed. The request is stored as an event of the log, with its \
            reason and the operator, and so is Apple's answer. Prints the answer as a JSON object. An extension of one \
            subscription is followed by a check of it. Repeated after a failure, the same extension is made once. Apple \
            accepts two extensions of a subscription in 365 days, and none can be undone. Requires the app's key in the \
            apps file. Exit status 65 if the subscription is unknown, or Apple refuses the extension; 69 if the App Store \
            or the database cannot be asked; 78 if the app has no key or the App Store rejects it.
            """)

    @OptionGroup var asking: StoreSessionFlags

    @Option(help: ArgumentHelp("The subscription to extend.", valueName: "original-transaction-id"))
    var subscription: String?

    @Option(help: ArgumentHelp("Extend all active subscriptions of this product instead.", valueName: "product-id"))
    var product: String?

    @Option(help: ArgumentHelp("The number of free days, 1 to 90.", valueName: "number"))
    var days: Int

    @Option(help: "Apple's word for the reason: undeclared, satisfaction, other or outage.")
    var reasonCode = StoreWrite.ExtensionReason.undeclared

    @Option(
        help: ArgumentHelp(
            "With --product, only the purchases of this storefront, for example USA. Repeatable. [all]",
            valueName: "country"))
    var storefront: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            The environment: production or sandbox. [the one that has the subscription; production for a product]
            """, valueName: "name"))
    var environment: StreamEnvironment?

    @Option(
        help: ArgumentHelp(
            "The request's id, of up to 128 characters; a UUID with --product. [a new UUID]", valueName: "id"))
    var requestIdentifier: String?

    @OptionGroup var write: WriteFlags

    func validate() throws {
        guard (subscription == nil) != (product == nil) else {
            throw ValidationError("Pass one of --subscription and --product.")
        }
        for id in [subscription, product] where id?.isEmpty == true {
            throw ValidationError("--subscription and --product must not be empty.")
        }
        guard StoreWrite.ExtensionTerms.daysAllowed.contains(days) else {
            throw ValidationError("--days is out of range: expected 1 to 90.")
        }
        guard storefront.isEmpty || product != nil else { throw ValidationError("--storefront requires --product.") }
        let letters = UInt8(ascii: "A")...UInt8(ascii: "Z")
        guard storefront.allSatisfy({ $0.utf8.count == 3 && $0.utf8.allSatisfy(letters.contains) }) else {
            throw ValidationError("--storefront is no country code: expected three capital letters, for example USA.")
        }
        try WriteFlags.check(environment)
        guard let requestIdentifier else { return }
        guard (1...ExtendRequest.identifierCharactersMax).contains(requestIdentifier.count) else {
            throw ValidationError("--request-identifier must have 1 to 128 characters.")
        }
        guard product == nil || RequestIdentifier.isUUID(requestIdentifier) else {
            throw ValidationError("--request-identifier must be a UUID with --product.")
        }
    }

    func run() async throws {
        try await reportingFailures {
            let result = try await StoreSession.with(asking) { session in try await change(session) }
            try result.report()
        }
    }

    private func change(_ session: StoreSession) async throws -> StoreChange.Result {
        let terms = StoreWrite.ExtensionTerms(days: days, reason: reasonCode)
        let span = days == 1 ? "1 day" : "\(days) days"
        let final = "An extension cannot be undone, and Apple accepts two in 365 days."
        let app = session.app.bundleId
        if let product {
            let environment = environment?.value ?? .production
            let countries = storefront.isEmpty ? "all storefronts" : storefront.joined(separator: ", ")
            return try await StoreChange(
                session: session, flags: write, environment: environment,
                change: .extendAll(productId: product, storefronts: storefront, terms),
                requestIdentifier: requestIdentifier,
                question: [
                    """
                    This extends all active subscriptions of \(product) of \(app) (\(environment.rawValue)) in \
                    \(countries) by \(span).
                    """, final,
                ]
            ).run()
        }
        guard let subscription else { return StoreChange.Result() }
        let subject: StoreChange.Subject
        switch try await StoreChange.subject(subscription, in: environment?.value, session) {
        case .success(let found): subject = found
        case .failure(let problem): return problem.result(subscription, of: app)
        }
        return try await StoreChange(
            session: session, flags: write, environment: subject.environment,
            change: .extend(originalTransactionId: subscription, terms), requestIdentifier: requestIdentifier,
            question: [
                "This extends subscription \(subscription) of \(app) (\(subject.environment.rawValue)) by \(span).",
                subject.description(at: SystemClock.now()), final,
            ]
        ).run()
    }
}
