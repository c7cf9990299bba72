import Subscriptions

/// The number of an order, as a store writes it to the customer who pays.
///
/// The App Store writes `MK5TTTVWJH`, Google Play `GPA.1234-5678-9012-34567`, with `..0` and so on behind it for renewals.
///
/// - Source: Apple, "orderId"; Google, "Resource: Order".
package struct OrderNumber: Sendable, Hashable {
    /// In upper case.
    package let text: String
    package let store: RefundRequest.Store

    private static let googlePrefix = "GPA."
    private static let charactersMax = 64

    /// Nil if no store writes orders so. Spaces around it and lower case are accepted.
    package init?(_ text: String) {
        let text = String(text.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
            .uppercased()
        guard text.utf8.count <= Self.charactersMax else { return nil }
        if text.hasPrefix(Self.googlePrefix) {
            let rest = text.utf8.dropFirst(Self.googlePrefix.utf8.count)
            guard !rest.isEmpty, rest.allSatisfy({ $0.isDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") })
            else { return nil }
            store = .google
        } else {
            // Only digits are the id of a transaction.
            guard text.utf8.count >= 6, text.utf8.allSatisfy({ $0.isDigit || $0.isLetter }),
                text.utf8.contains(where: \.isLetter)
            else { return nil }
            store = .apple
        }
        self.text = text
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
    fileprivate var isLetter: Bool { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(self) }
}

/// What a store answers about an order of an app.
package enum OrderOutcome: Sendable {
    /// What the store answered about the purchases is in the log.
    case found(HandInAnswer)
    /// Google Play has the order, and no answer about its purchase yet. The server asks until it has one.
    case pending
    /// Google Play has the order, and names no purchase.
    case noPurchase
    /// The store has no such order of the app.
    case notOfApp
    /// The store does not accept the number.
    case refused
    /// The answer is not genuine, or is about another app. Nothing was stored.
    case unverified
    case keyRejected
    /// No usable answer: whether the order exists is not known.
    case unavailable

    /// Whether the answer says that there is no such purchase; asking again changes nothing.
    package var isFinal: Bool {
        switch self {
        case .noPurchase, .notOfApp, .refused, .unverified: true
        case .found, .pending, .keyRejected, .unavailable: false
        }
    }

    /// In words; nil if the purchases were found.
    package func problem(_ number: OrderNumber, of app: String) -> String? {
        let order = "order \(number.text)"
        switch (self, number.store) {
        case (.found, _): return nil
        case (.pending, _):
            return "\(number.store.shop) has \(order), and no answer about its purchase yet: the server asks again"
        case (.noPurchase, _): return "\(number.store.shop) has \(order), and names no purchase of it"
        case (.notOfApp, .apple):
            return "the App Store has no \(order) of \(app): it says the same of another developer's order "
                + "and of a number that does not exist"
        case (.notOfApp, .google): return "Google Play has no \(order) of \(app)"
        case (.refused, .apple): return "the App Store does not accept \(number.text) as an order number"
        case (.refused, .google):
            return "Google Play does not answer about \(order) to \(app): it may be another developer's order"
        case (.unverified, _):
            return "the answer about \(order) is not signed by the App Store for \(app): nothing was stored"
        case (.keyRejected, .apple): return "the App Store rejects the key of \(app): see the server log"
        case (.keyRejected, .google): return "Google Play rejects the credentials of \(app): see the server log"
        case (.unavailable, _):
            return "\(number.store.shop) does not answer now, so it is not known whether \(order) exists: "
                + "try again later"
        }
    }
}

extension RefundRequest.Store {
    /// The name of the shop, for people.
    package var shop: String {
        switch self {
        case .apple: "the App Store"
        case .google: "Google Play"
        }
    }
}
