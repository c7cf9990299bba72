import Encoding
import Subscriptions

/// The simulated store's `verifyReceipt`: answers about the Apple Accounts of a run, from the books of its stories.
package struct VerifyReceipt: Sendable {
    /// An answer with its status in the body.
    package struct Answer: Sendable {
        package let status: Int
        package let body: [UInt8]
        /// The Apple Account of the receipt; nil if the receipt is not one of this store.
        package let account: SimulatedAccount.Key?
    }

    let storyteller: Storyteller
    let app: SimulatedApp
    let seal: ReceiptSeal

    /// Answers a request as the store does at the instant.
    ///
    /// - Parameters:
    ///   - body: The body of a POST; nil for any other method.
    ///   - host: Which of the two hosts is asked.
    ///   - deleted: The Apple Accounts that no longer exist.
    ///   - fault: Changes the answer. Faults of the connection have no effect here.
    package func answer(
        to body: [UInt8]?, host: Subscriptions.Environment, at instant: Instant,
        deleted: Set<SimulatedAccount.Key> = [], fault: StoreFault? = nil
    ) -> Answer {
        if case .status(let number, let isRetryable)? = fault { return Self.error(number, isRetryable: isRetryable) }
        guard let body, let request = try? JSONDocument(body).root, request.isObject else {
            return Self.error(21000)
        }
        guard let text = request.string("receipt-data"),
            let receipt = Base64.decode(Array(text.utf8)[...], .standard)
        else { return Self.error(21002) }
        switch seal.open(receipt) {
        case .malformed: return Self.error(21002)
        case .altered: return Self.error(21003)
        case .contents(let contents):
            let whole = answer(about: contents, request, host: host, at: instant, deleted, fault)
            return fault == .cutOff ? whole.cutOff : whole
        }
    }

    private func answer(
        about contents: ReceiptSeal.Contents, _ request: JSONValue, host: Subscriptions.Environment,
        at instant: Instant, _ deleted: Set<SimulatedAccount.Key>, _ fault: StoreFault?
    ) -> Answer {
        guard contents.environment == host else {
            return Self.error(host == .production ? 21007 : 21008, contents.account)
        }
        guard contents.app == ReceiptSeal.Contents.mark(ofApp: app.bundleId) else { return Self.error(21004) }
        guard let account = storyteller.account(contents.account) else { return Self.error(21003) }
        guard accepts(request.string("password"), for: account) else { return Self.error(21004, account.key) }
        guard !deleted.contains(account.key) else { return Self.error(21010, account.key) }
        switch contents.style {
        case .app:
            return AppReceiptAnswer(
                account: account, app: app, seal: seal, seed: storyteller.seed, createdAt: contents.createdAt,
                instant: instant, isNewestOnly: request.bool("exclude-old-transactions") ?? false
            ).answer(fault)
        case .transaction:
            return TransactionReceiptAnswer(
                account: account, app: app, seal: seal, createdAt: contents.createdAt, instant: instant
            ).answer ?? Self.error(21003)
        }
    }

    /// The receipt in a request; nil if there is none.
    package static func receipt(in body: [UInt8]) -> [UInt8]? {
        guard let text = try? JSONDocument(body).root.string("receipt-data") else { return nil }
        return Base64.decode(Array(text.utf8)[...], .standard)
    }

    /// A password is needed for accounts with subscriptions. An app without a shared secret accepts every password.
    private func accepts(_ password: String?, for account: SimulatedAccount) -> Bool {
        guard let secret = app.sharedSecret else { return true }
        return password.map { $0 == secret } ?? !account.hasSubscription
    }

    private static func error(
        _ status: Int, _ account: SimulatedAccount.Key? = nil, isRetryable: StoreFault.IsRetryable? = nil
    ) -> Answer {
        var writer = JSONWriter()
        writer.object { writer in
            isRetryable?.write(to: &writer)
            writer.member("status", status)
        }
        return Answer(status: status, body: writer.bytes, account: account)
    }
}

extension VerifyReceipt.Answer {
    /// The first part of the answer, which is no JSON text.
    fileprivate var cutOff: VerifyReceipt.Answer {
        VerifyReceipt.Answer(status: status, body: Array(body.prefix(body.count * 2 / 3)), account: account)
    }
}

extension Simulation {
    /// The store of the run.
    package var verifyReceipt: VerifyReceipt {
        VerifyReceipt(storyteller: storyteller, app: settings.app, seal: seal)
    }

    /// The receipt that an app of the Apple Account has at the instant.
    package func receipt(of account: SimulatedAccount, createdAt: Instant) -> [UInt8] {
        seal.receipt(of: account.key, style: account.style, app: settings.app, createdAt: createdAt)
    }
}
