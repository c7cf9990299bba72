import Foundation
import SubledgerClient

/// A line of standard input. Each command has some of the members.
struct Command: Decodable {
    let name: String
    let base: URL?
    let token: String?
    let app: String?
    let keys: [String]?
    let products: [String: [String]]?
    let now: Double?
    let uptime: Double?
    let user: UUID?
    let customerId: String?
    let assertions: [String]?
    let product: String?
    let outcome: String?
    let transaction: GivenTransaction?
    let finished: Bool?
    let seconds: Double?
    let wrongBy: Double?
    let away: Bool?

    private enum CodingKeys: String, CodingKey {
        case name = "do"
        case base, token, app, keys, products, now, uptime, user, customerId, assertions, product, outcome, transaction
        case finished, seconds, wrongBy, away
    }
}

/// A transaction as a command describes it; dates are in seconds since 1970.
struct GivenTransaction: Decodable {
    let id: String
    let text: String
    let productId: String
    let appAccountToken: UUID?
    let purchaseDate: Date
    let expirationDate: Date?
    let revocationDate: Date?
    let isVerified: Bool

    var signed: SignedTransaction {
        SignedTransaction(
            id: id, text: text, productId: productId, appAccountToken: appAccountToken, purchaseDate: purchaseDate,
            expirationDate: expirationDate, revocationDate: revocationDate, isVerified: isVerified)
    }
}
