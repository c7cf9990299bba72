import Encoding
import Subscriptions

/// A way to hand purchases in: what a request contains, what proves it, and which store is asked.
package protocol HandInSource: Sendable {
    /// Whether purchases of the app can be handed in.
    func accepts(_ app: String) -> Bool

    /// Proves the purchases of a request, appends what they state if it is news, and links them to the customer.
    ///
    /// Durable when this returns, also if the store has not answered yet. Safe to repeat.
    ///
    /// - Parameter request: Of an app that is accepted, see ``accepts(_:)``.
    /// - Throws: ``HandInRefusal``, ``ReadError``, ``AppendError``. Some of the purchases may be stored.
    func handIn(_ request: HandInRequest) async throws -> HandInResult
}

/// The backend's customer who hands purchases in.
package struct HandInCustomer: Sendable, Hashable {
    package let id: String
    /// The account id that the backend gave the app for the customer, which purchases of the customer carry: `appAccountToken`
    /// or `obfuscatedAccountId`. Nil if the backend names none.
    package let accountId: String?

    package init(_ id: String, accountId: String? = nil) {
        self.id = id
        self.accountId = accountId
    }

    /// Nil without an id.
    package init?(_ id: String?, accountId: String?) {
        guard let id else { return nil }
        self.init(id, accountId: accountId)
    }
}

/// A request that hands purchases in.
package struct HandInRequest: Sendable {
    package let app: String
    /// The backend's customer to link the purchases to; nil if there is none.
    package let customerId: String?
    /// An object.
    package let body: JSONValue
    /// Whether an app sent it. Backends may name purchases that they cannot prove.
    package let isOfApp: Bool
    /// Throws if purchases of a stream may not be stored. A source that knows the stream before it stores anything calls it
    /// with the sizes of what it will store.
    package let admit: @Sendable (StreamKey, _ bodyBytes: [Int]) throws -> Void
    /// Throws if the customer may not take purchases, named by subscription, from another customer now. A source calls it
    /// before it stores anything, as soon as it knows the ids.
    package let admitMove: @Sendable (_ subscriptions: [String]) async throws -> Void

    package init(
        app: String, customerId: String?, body: JSONValue, isOfApp: Bool,
        admitMove: @escaping @Sendable (_ subscriptions: [String]) async throws -> Void = { _ in },
        admit: @escaping @Sendable (StreamKey, _ bodyBytes: [Int]) throws -> Void
    ) {
        self.app = app
        self.customerId = customerId
        self.body = body
        self.isOfApp = isOfApp
        self.admit = admit
        self.admitMove = admitMove
    }
}

package enum HandInResult: Sendable {
    case answered(HandInAnswer)
    /// The purchase is stored, and its store is asked until it answers.
    case pending
    /// A receipt that is pending or refused.
    case receipt(HandIn)

    /// - Parameter lastPosition: The last position that readers should have seen; nil if nothing was appended.
    package init(_ receipt: HandIn, lastPosition: Int64?) {
        guard receipt.state == .answered, let environment = receipt.findings.environment else {
            self = .receipt(receipt)
            return
        }
        var answer = HandInAnswer(
            stream: StreamKey(app: receipt.app, environment: environment), registration: receipt.findings.registration,
            subscriptions: receipt.findings.subscriptions, position: receipt.findings.position)
        answer.isLinked = receipt.findings.isLinked
        answer.lastPosition = lastPosition
        answer.receipt = receipt
        self = .answered(answer)
    }
}

/// Purchases that were handed in and proven. What they state is in the log.
package struct HandInAnswer: Sendable {
    package let stream: StreamKey
    /// Nil for a receipt that an earlier version recorded without it.
    package var registration: HandIn.Registration?
    /// Whether the customer was linked to the purchases; nil without a customer or a purchase.
    package var isLinked: Bool?
    /// The ids of the subscriptions, sorted by bytes. Of Google Play: the keys of the purchases.
    package let subscriptions: [String]
    /// The last position of an event with what they state; nil if they stated nothing new.
    package let position: Int64?
    /// The last position that readers should have seen: of an event, or of the customer's links.
    package var lastPosition: Int64?
    /// Google's word for the state of the purchase.
    package var storeState: String?
    /// The receipt that proves them.
    package var receipt: HandIn?
    /// Of an answer of the App Store about an order, the ids of its transactions by subscription; otherwise empty.
    package var transactionIds: [String: [String]] = [:]

    package init(
        stream: StreamKey, registration: HandIn.Registration?, subscriptions: [String], position: Int64?
    ) {
        self.stream = stream
        self.registration = registration
        self.subscriptions = subscriptions
        self.position = position
        lastPosition = position
    }
}

/// Why purchases that are handed in are not stored. The description quotes nothing of the request.
package struct HandInRefusal: Error, Hashable, CustomStringConvertible {
    package enum Kind: Sendable, Hashable, CaseIterable {
        /// The request is not one.
        case malformed
        case tooLong
        /// A request of an app that only a backend may make.
        case forbidden
        /// The store knows no such purchase, or the server may not ask it.
        case notFound
        /// The purchase is not genuine, or not one of the app.
        case refused
        /// It cannot be proven now.
        case unavailable
    }

    package let kind: Kind
    package let description: String
    /// The member of the body; nil if the cause is not one.
    package let field: String?

    package init(_ kind: Kind, _ description: String, field: String? = nil) {
        self.kind = kind
        self.description = description
        self.field = field
    }
}
