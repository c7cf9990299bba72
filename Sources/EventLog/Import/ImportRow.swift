import Encoding
import Subscriptions

/// A purchase of one of the backend's customers, as another service or the backend's own records name it.
package struct ImportRow: Sendable, Hashable {
    /// What the row knows of the purchase.
    package enum Proof: Sendable, Hashable {
        /// Apple's id of the subscription: enough for a link.
        case originalTransactionId(String)
        /// Any transaction of Apple's, about which Apple is asked.
        case transactionId(String)
        /// A transaction that Apple signed for the app.
        case signedTransaction(String)
        /// A receipt, as base64.
        case receipt(String)
        /// Google's token of the purchase.
        case purchaseToken(String)
        /// The number of an order of Google Play, about which Google is asked.
        case orderId(String)

        /// Whether it is about a purchase on Google Play.
        package var isOfGooglePlay: Bool {
            switch self {
            case .purchaseToken, .orderId: true
            case .originalTransactionId, .transactionId, .signedTransaction, .receipt: false
            }
        }
    }

    /// The app of a row that names none, for each store; nil if such a row is refused.
    package struct Apps: Sendable, Hashable {
        /// A bundle id.
        package let appStore: String?
        /// A package name.
        package let googlePlay: String?

        package init(appStore: String?, googlePlay: String?) {
            self.appStore = appStore
            self.googlePlay = googlePlay
        }
    }

    package let customerId: String
    package let app: String
    /// That of a link. Other purchases are of the environment that their store states.
    package let environment: Environment
    package let proof: Proof
    package let productId: String?

    /// What tells the purchases of rows apart.
    package struct Purchase: Sendable, Hashable {
        package let app: String
        package let environment: Environment
        package let proof: Proof
    }

    package var purchase: Purchase { Purchase(app: app, environment: environment, proof: proof) }

    /// Why a row is no row. The description quotes nothing that is longer than a word.
    package struct Malformed: Error, Hashable, CustomStringConvertible {
        package let description: String

        package init(_ description: String) { self.description = description }
    }

    /// The names of the fields.
    package static let fields = [
        "customerId", "app", "environment", "originalTransactionId", "transactionId", "signedTransaction", "receipt",
        "purchaseToken", "orderId", "productId",
    ]

    /// Reads a row.
    ///
    /// - Parameters:
    ///   - environment: That of a row that names none.
    ///   - field: Returns a field by its name; nil or empty if the row does not have it.
    package init(
        apps: Apps, environment: Environment, _ field: (String) -> String?
    ) throws(Malformed) {
        func text(_ name: String) -> String? { field(name).flatMap { $0.isEmpty ? nil : $0 } }
        guard let customerId = text("customerId") else { throw Malformed("customerId is missing") }
        do throws(LinkStatement.Malformed) {
            try LinkStatement.check(customerId, "customerId")
        } catch {
            throw Malformed(error.description)
        }
        self.customerId = customerId
        proof = try Self.proof(text)
        productId = text("productId")
        guard let app = text("app") ?? (proof.isOfGooglePlay ? apps.googlePlay : apps.appStore) else {
            let store = proof.isOfGooglePlay ? "Google Play" : "the App Store"
            throw Malformed("app is missing: the row is about \(store)")
        }
        self.app = app
        guard let name = text("environment") else {
            self.environment = environment
            return
        }
        guard let stated = Environment(rawValue: name.lowercased()), [.production, .sandbox].contains(stated) else {
            throw Malformed("environment must be production or sandbox")
        }
        self.environment = stated
    }

    /// The strongest proof of a row: what a store signed, then what names the purchase itself.
    private static func proof(_ text: (String) -> String?) throws(Malformed) -> Proof {
        let apple: Proof? =
            text("signedTransaction").map(Proof.signedTransaction) ?? text("receipt").map(Proof.receipt)
            ?? text("originalTransactionId").map(Proof.originalTransactionId)
            ?? text("transactionId").map(Proof.transactionId)
        let google: Proof? = text("purchaseToken").map(Proof.purchaseToken) ?? text("orderId").map(Proof.orderId)
        switch (apple, google) {
        case (let proof?, nil), (nil, let proof?):
            try check(proof)
            return proof
        case (_?, _?): throw Malformed("the row names purchases of both stores: expected one of them")
        case (nil, nil):
            throw Malformed(
                "the row names no purchase: expected originalTransactionId, transactionId, signedTransaction, receipt, "
                    + "purchaseToken or orderId")
        }
    }

    private static func check(_ proof: Proof) throws(Malformed) {
        switch proof {
        case .originalTransactionId(let id):
            if !isNumber(id) { throw Malformed("originalTransactionId must be a number of Apple's") }
        case .transactionId(let id):
            if !isNumber(id) { throw Malformed("transactionId must be a number of Apple's") }
        case .orderId(let id):
            // Google's numbers begin so, also those of renewals.
            if !id.hasPrefix("GPA.") || id.utf8.count > orderIdBytesMax {
                throw Malformed("orderId must be an order number of Google Play, such as GPA.1234-5678-9012-34567")
            }
        case .signedTransaction, .receipt, .purchaseToken: break
        }
    }

    private static let orderIdBytesMax = 128

    private static func isNumber(_ id: String) -> Bool {
        (1...64).contains(id.utf8.count) && id.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}

/// What came of a row.
package enum ImportOutcome: Sendable, Hashable {
    /// Stored, and durable. A store that must be asked is asked by the server.
    case taken
    /// The log has all of it already.
    case known
    case refused(String)
    /// A store or the database cannot be asked now. The row is to be repeated.
    case unavailable(String)

    /// `taken`, `known`, `refused` or `unavailable`.
    package var label: String {
        switch self {
        case .taken: "taken"
        case .known: "known"
        case .refused: "refused"
        case .unavailable: "unavailable"
        }
    }

    package var reason: String? {
        switch self {
        case .taken, .known: nil
        case .refused(let reason), .unavailable(let reason): reason
        }
    }
}

/// Takes rows of another service into the log.
package protocol PurchaseImport: Sendable {
    /// Stores what rows state, links their purchases, and asks the stores where that is needed.
    ///
    /// Safe to repeat: what is stored is known then. Rows are taken in order where they name the same purchase.
    ///
    /// - Parameter until: No question is begun after it: rows that need one are `unavailable`.
    /// - Returns: An outcome for each row.
    /// - Throws: ``ReadError``, ``AppendError``. Some of the rows may be stored.
    func take(_ rows: [ImportRow], until: ContinuousClock.Instant) async throws -> [ImportOutcome]
}

extension ImportRow {
    /// The fields of a row that is a JSON object. Other members are ignored.
    package static func texts(of json: JSONValue) throws(Malformed) -> [String: String] {
        guard json.isObject else { throw Malformed("the row must be an object") }
        var texts: [String: String] = [:]
        for (name, value) in json.members where !value.isNull {
            guard let key = name.string, fields.contains(key) else { continue }
            guard let text = value.string else { throw Malformed("\(key) must be a string") }
            texts[key] = text
        }
        return texts
    }
}
