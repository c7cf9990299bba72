import Encoding
import Foundation

/// A request for an extension, by the id that the app's server chose.
struct ExtensionKey: Hashable {
    let requestIdentifier: String
    /// The original transaction id, or the product id of an extension of all subscriptions.
    let subject: String
}

/// An extension of all subscriptions of a product.
struct MassExtension {
    let completesAt: Instant
    let succeeded: Int64
    let failed: Int64
}

// MARK: - Extensions

extension SimulatedServerAPI {
    private static let yearMilliseconds: Int64 = 365 * 86_400_000
    private static let extensionsPerYear = 2
    /// How long an extension of all subscriptions takes.
    private static let massMilliseconds: Int64 = 3_600_000

    func extend(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        guard (1...20).contains(request.id.utf8.count), Int64(request.id) != nil else { throw .originalTransactionId }
        let terms = try ExtensionTerms(request.call, isForAll: false)
        return try extending.withLock { _ throws(StoreAPIError) in try extend(request, terms) }
    }

    private func extend(_ request: StoreAPIRequest, _ terms: ExtensionTerms) throws(StoreAPIError) -> StoreAPIAnswer {
        let key = ExtensionKey(requestIdentifier: terms.requestIdentifier, subject: request.id)
        if let repeated = state.withLock({ $0.extensions[key] }) { return repeated }
        guard let found = try? find(request), found.kind == .original, let subscription = found.subscription else {
            throw .originalNotFound
        }
        guard !subscription.customer.isFamilyMember else { throw .familyExtension }
        guard !subscription.customer.isAssigned else { throw .assignedExtension }
        if let problem = whyNotExtendable(subscription, at: request.now) { throw problem }
        guard let newest = extend(subscription, byDays: terms.days, at: request.now) else { throw .notExtendable }
        let answer = StoreAPIAnswer.json { writer in
            writer.member("originalTransactionId", request.id)
            writer.member("webOrderLineItemId", newest.webOrderLineItemId)
            writer.member("success", true)
            writer.member("effectiveDate", newest.expiresDate?.milliseconds)
        }
        state.withLock { $0.extensions[key] = answer }
        return answer
    }

    /// Nil if the subscription can be extended.
    private func whyNotExtendable(_ subscription: SimulatedSubscription, at now: Instant) -> StoreAPIError? {
        let amendments = amendments
        guard subscription.status(at: now, amendments)?.status == .active else { return .notExtendable }
        let year = now.advanced(byMilliseconds: -Self.yearMilliseconds)
        let recent = amendments.extensions(of: subscription.originalTransactionId).filter { $0.at > year }
        return recent.count < Self.extensionsPerYear ? nil : .extendedTooOften
    }

    /// Moves the end of the current period, and makes the notification of it.
    ///
    /// - Returns: The purchase with its new end.
    private func extend(_ subscription: SimulatedSubscription, byDays days: Int64, at now: Instant) -> Purchase? {
        guard let purchase = subscription.status(at: now, amendments)?.transaction.purchase,
            let end = purchase.expiresDate?.advanced(byMilliseconds: days * 86_400_000)
        else { return nil }
        let change = BookAmendments.Extension(transactionId: purchase.transactionId, expiresDate: end, at: now)
        state.withLock { $0.amendments.extend(subscription.originalTransactionId, by: change) }
        guard let status = subscription.status(at: now, amendments) else { return nil }
        var data = V2Data(app: app)
        data.transaction = status.transaction.rendered(app: app, signedDate: now)
        data.renewalInfo = status.renewalInfo(app: app, signedDate: now)
        data.status = status.status.rawValue
        make("RENEWAL_EXTENDED", nil, .data(data), of: subscription.originalTransactionId, at: now)
        return status.transaction.purchase
    }

    func extendAll(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        let terms = try ExtensionTerms(request.call, isForAll: true)
        return try extending.withLock { _ throws(StoreAPIError) in try extendAll(request, terms) }
    }

    private func extendAll(
        _ request: StoreAPIRequest, _ terms: ExtensionTerms
    ) throws(StoreAPIError) -> StoreAPIAnswer {
        let key = ExtensionKey(requestIdentifier: terms.requestIdentifier, subject: terms.productId)
        guard request.call.host == app.environment,
            Product.all(of: app.bundleId).contains(where: { $0.id == terms.productId })
        else { throw .productId }
        let answer = StoreAPIAnswer.json { $0.member("requestIdentifier", terms.requestIdentifier) }
        guard state.withLock({ $0.massExtensions[key] == nil }) else { return answer }
        var succeeded: Int64 = 0
        var failed: Int64 = 0
        for story in 0..<simulation.settings.subscriptions {
            for subscription in simulation.storyteller.accounts(ofStory: story).flatMap(\.subscriptions)
            where includes(subscription, terms, at: request.now) {
                let isExtended =
                    whyNotExtendable(subscription, at: request.now) == nil
                    && extend(subscription, byDays: terms.days, at: request.now) != nil
                if isExtended { succeeded += 1 } else { failed += 1 }
            }
        }
        let mass = MassExtension(
            completesAt: request.now.advanced(byMilliseconds: Self.massMilliseconds), succeeded: succeeded,
            failed: failed)
        state.withLock { $0.massExtensions[key] = mass }
        let summary = V2Summary(
            app: app, requestIdentifier: terms.requestIdentifier, productId: terms.productId,
            storefrontCountryCodes: terms.storefronts ?? [], succeededCount: succeeded, failedCount: failed)
        make("RENEWAL_EXTENSION", "SUMMARY", .summary(summary), of: nil, at: mass.completesAt)
        return answer
    }

    /// Whether the subscription is an active purchaser's of the product and of one of the storefronts.
    private func includes(_ subscription: SimulatedSubscription, _ terms: ExtensionTerms, at now: Instant) -> Bool {
        guard !subscription.customer.isMember,
            terms.storefronts?.contains(subscription.customer.storefront.country) ?? true,
            let status = subscription.status(at: now, amendments)
        else { return false }
        return status.status == .active && status.transaction.purchase.product.id == terms.productId
    }

    func extendAllStatus(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        guard request.parameters.count == 2, UUID(uuidString: request.parameters[1]) != nil else {
            throw .requestIdentifier
        }
        let key = ExtensionKey(requestIdentifier: request.parameters[1], subject: request.parameters[0])
        guard request.call.host == app.environment, let mass = state.withLock({ $0.massExtensions[key] }) else {
            throw .extensionNotFound
        }
        let isComplete = mass.completesAt <= request.now
        return .json { writer in
            writer.member("requestIdentifier", key.requestIdentifier)
            writer.member("complete", isComplete)
            guard isComplete else { return }
            writer.member("completeDate", mass.completesAt.milliseconds)
            writer.member("succeededCount", mass.succeeded)
            writer.member("failedCount", mass.failed)
        }
    }
}

/// The body of a request for an extension.
private struct ExtensionTerms {
    let days: Int64
    let requestIdentifier: String
    /// Empty for the extension of one subscription.
    let productId: String
    /// Nil for all storefronts.
    let storefronts: [String]?

    private static let identifierCharactersMax = 128

    init(_ call: StoreAPICall, isForAll: Bool) throws(StoreAPIError) {
        guard let body = call.json else { throw .request }
        guard let days = body["extendByDays"]?.int64, (1...90).contains(days) else { throw .extendByDays }
        // Apple answers 500 instead of 4000010.
        guard let reason = body["extendReasonCode"] else { throw .internalError }
        guard let code = reason.int64, (0...3).contains(code) else { throw .extendReasonCode }
        guard let identifier = body.string("requestIdentifier"), !identifier.isEmpty,
            identifier.count <= Self.identifierCharactersMax, !isForAll || UUID(uuidString: identifier) != nil
        else { throw .requestIdentifier }
        self.days = days
        requestIdentifier = identifier
        guard isForAll else {
            productId = ""
            storefronts = nil
            return
        }
        guard let product = body.string("productId"), !product.isEmpty else { throw .productId }
        productId = product
        guard let list = body["storefrontCountryCodes"], !list.isNull else {
            storefronts = nil
            return
        }
        let codes = list.elements.compactMap(\.string)
        guard list.isArray, codes.count == list.elements.count else { throw .storefront }
        guard !codes.isEmpty else { throw .storefrontsEmpty }
        guard codes.allSatisfy({ code in Storefront.all.contains { $0.country == code } }) else { throw .storefront }
        storefronts = codes
    }
}

// MARK: - Account tokens

extension SimulatedServerAPI {
    func setAccountToken(_ request: StoreAPIRequest) throws(StoreAPIError) -> StoreAPIAnswer {
        guard let token = request.call.json?.string("appAccountToken"), UUID(uuidString: token) != nil else {
            throw .accountToken
        }
        let found: SimulatedLookup
        do throws(StoreAPIError) {
            found = try find(request)
        } catch {
            throw error == .transactionNotFound ? StoreAPIError.originalNotFound : error
        }
        guard let subscription = found.subscription else { throw .accountTransactionId }
        guard found.kind == .original else { throw .notOriginal }
        guard !subscription.customer.isFamilyMember else { throw .familyShared }
        guard !subscription.customer.isAssigned else { throw .assigned }
        guard let newest = subscription.transactions(at: request.now).last else { throw .originalNotFound }
        let change = BookAmendments.AccountToken(
            transactionId: newest.transactionId, appAccountToken: token.lowercased(), at: request.now)
        state.withLock { $0.amendments.setAccountToken(request.id, to: change) }
        return StoreAPIAnswer()
    }
}

// MARK: - Notifications of changes

extension SimulatedServerAPI {
    /// Makes a notification that no story has.
    ///
    /// - Parameter originalTransactionId: The subscription; nil if it is about none.
    /// - Returns: The `notificationUUID`.
    @discardableResult
    func make(
        _ type: String, _ subtype: String?, _ content: V2Notification.Content, of originalTransactionId: String?,
        at instant: Instant
    ) -> String {
        let uuid = state.withLock { $0.identifiers.uuid() }
        let notification = V2Notification(
            type, subtype, notificationUUID: uuid, signedDate: instant, content: content)
        let account = originalTransactionId.flatMap { simulation.lookup($0)?.account.key }
        let signedPayload = V2Notification.signedPayload(in: notification.body(simulation.signer))
        journal.add(
            NotificationJournal.Extra(
                notificationUUID: uuid, type: type, subtype: subtype, signedDate: instant, account: account,
                signedPayload: signedPayload))
        return uuid
    }
}
