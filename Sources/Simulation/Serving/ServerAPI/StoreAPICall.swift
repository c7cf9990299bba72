import Encoding
import Subscriptions

/// A request to the simulated App Store Server API.
package struct StoreAPICall: Sendable {
    package let host: Subscriptions.Environment
    package let method: String
    /// The segments of the path after `/inApps`.
    package let path: [String]
    package let query: [(name: String, value: String)]
    /// The header of this name.
    package let authorization: String?
    package let body: [UInt8]

    package init(
        host: Subscriptions.Environment, method: String, path: [String], query: [(name: String, value: String)] = [],
        authorization: String?, body: [UInt8] = []
    ) {
        self.host = host
        self.method = method
        self.path = path
        self.query = query
        self.authorization = authorization
        self.body = body
    }

    func values(_ name: String) -> [String] { query.filter { $0.name == name }.map(\.value) }

    func value(_ name: String) -> String? { values(name).last }

    /// The body as a JSON object; nil if it is none.
    var json: JSONValue? {
        guard let root = try? JSONDocument(body).root, root.isObject else { return nil }
        return root
    }
}

/// An answer without an error.
struct StoreAPIAnswer: Sendable {
    var status = 200
    /// Empty for an answer without a body.
    var body: [UInt8] = []

    static func json(_ write: (inout JSONWriter) -> Void) -> StoreAPIAnswer {
        var writer = JSONWriter()
        writer.object(write)
        return StoreAPIAnswer(body: writer.bytes)
    }
}

/// An answer with an error code, whose first three digits are the HTTP status.
struct StoreAPIError: Error, Hashable {
    let code: Int
    let message: String

    init(_ code: Int, _ message: String) {
        self.code = code
        self.message = message
    }

    /// A code outside of Apple's table has the status 500.
    var status: Int { (400...599).contains(code / 10_000) ? code / 10_000 : 500 }

    var body: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("errorCode", code)
            writer.member("errorMessage", message)
        }
        return writer.bytes
    }
}

extension StoreAPIError {
    static let request = StoreAPIError(4_000_000, "Bad request.")
    static let revision = StoreAPIError(4_000_005, "Invalid request revision.")
    static let transactionId = StoreAPIError(4_000_006, "Invalid transaction id.")
    static let originalTransactionId = StoreAPIError(4_000_008, "Invalid original transaction id.")
    static let extendByDays = StoreAPIError(4_000_009, "Invalid extend by days value.")
    static let extendReasonCode = StoreAPIError(4_000_010, "Invalid extend reason code.")
    static let requestIdentifier = StoreAPIError(4_000_011, "Invalid request identifier.")
    static let startTooFarBack = StoreAPIError(4_000_012, "Start date is too far back.")
    static let startAfterEnd = StoreAPIError(4_000_013, "Start date is not before end date.")
    static let paginationToken = StoreAPIError(4_000_014, "Invalid pagination token.")
    static let startDate = StoreAPIError(4_000_015, "Invalid start date.")
    static let endDate = StoreAPIError(4_000_016, "Invalid end date.")
    static let paginationTokenExpired = StoreAPIError(4_000_017, "Pagination token expired.")
    static let notificationType = StoreAPIError(4_000_018, "Invalid notification type or subtype.")
    static let twoFilters = StoreAPIError(4_000_019, "Multiple filters supplied.")
    static let testToken = StoreAPIError(4_000_020, "Invalid test notification token.")
    static let sort = StoreAPIError(4_000_021, "Invalid sort.")
    static let productType = StoreAPIError(4_000_022, "Invalid product type.")
    static let productId = StoreAPIError(4_000_023, "Invalid product id.")
    static let subscriptionGroup = StoreAPIError(4_000_024, "Invalid subscription group identifier.")
    static let ownershipType = StoreAPIError(4_000_026, "Invalid in-app ownership type.")
    static let storefrontsEmpty = StoreAPIError(4_000_027, "Empty storefront country code list.")
    static let storefront = StoreAPIError(4_000_028, "Invalid storefront country code.")
    static let revoked = StoreAPIError(4_000_030, "Invalid revoked value.")
    static let status = StoreAPIError(4_000_031, "Invalid status.")
    static let accountTransactionId = StoreAPIError(4_000_048, "App transaction id is not supported here.")
    static let accountToken = StoreAPIError(4_000_183, "Invalid app account token.")
    static let familyShared = StoreAPIError(4_000_185, "Family-shared transactions are not supported.")
    static let assigned = StoreAPIError(4_000_227, "Assigned transactions are not supported.")
    static let notOriginal = StoreAPIError(4_000_187, "The id is not an original transaction id.")
    static let notExtendable = StoreAPIError(4_030_004, "The subscription's state does not allow an extension.")
    static let extendedTooOften = StoreAPIError(4_030_005, "The subscription has received its maximum of extensions.")
    static let familyExtension = StoreAPIError(4_030_007, "A family member's subscription cannot be extended.")
    static let assignedExtension = StoreAPIError(4_030_028, "An assigned member's subscription cannot be extended.")
    static let accountNotFound = StoreAPIError(4_040_001, "Account not found.")
    static let originalNotFound = StoreAPIError(4_040_005, "Original transaction id not found.")
    static let noNotificationURL = StoreAPIError(4_040_007, "No App Store Server Notification URL found.")
    static let testNotFound = StoreAPIError(4_040_008, "Test notification not found.")
    static let extensionNotFound = StoreAPIError(4_040_009, "No status of an extension request found.")
    static let transactionNotFound = StoreAPIError(4_040_010, "Transaction id not found.")
    static let rateLimit = StoreAPIError(4_290_000, "Rate limit exceeded.")
    static let internalError = StoreAPIError(5_000_000, "An unknown error occurred.")
}
