import Crypto
import Encoding
import Subscriptions

/// A digest of a notification's content, equal for all copies that Apple sends of it. V1 has no id, so different
/// notifications with the same content have equal fingerprints too.
///
/// Omits everything that differs when Apple sends the same notification again: the base64 receipts, which contain their
/// own creation time, the secret, the second and third format of each date, and the time of receipt. Dates are
/// truncated to seconds, since the same purchase was observed with and without milliseconds.
struct V1Fingerprint {
    var environment: Environment
    var app: String?
    var type: String?
    var autoRenewStatus: Bool?
    var autoRenewProductId: String?
    var autoRenewStatusChangeDate: Instant?
    var expirationIntent: Int?
    var originalTransactionId: String?
    var cancellationDate: Instant?
    var transactions: [Transaction]
    var renewals: [RenewalInfo]

    var digest: [UInt8] {
        var text = CanonicalText()
        text.add("apple-v1")
        text.add(environment.rawValue)
        text.add(app)
        text.add(type)
        text.add(autoRenewStatus)
        text.add(autoRenewProductId)
        text.add(autoRenewStatusChangeDate)
        text.add(expirationIntent)
        text.add(originalTransactionId)
        text.add(cancellationDate)
        // Sorts indices, since copying a transaction copies dozens of strings.
        for row in transactions.indices.sorted(by: { transactions[$0].transactionId < transactions[$1].transactionId })
        {
            text.add("transaction")
            text.add(transactions[row].transactionId)
            text.add(transactions[row].webOrderLineItemId)
            text.add(transactions[row].productId)
            text.add(transactions[row].purchaseDate)
            text.add(transactions[row].expiresDate)
            text.add(transactions[row].revocationDate)
            text.add(transactions[row].isUpgraded)
        }
        for renewal in renewals.sorted(by: { $0.originalTransactionId < $1.originalTransactionId }) {
            text.add("renewal")
            text.add(renewal.originalTransactionId)
            text.add(renewal.productId)
            text.add(renewal.autoRenewProductId)
            text.add(renewal.autoRenewStatus)
            text.add(renewal.isInBillingRetryPeriod)
            text.add(renewal.gracePeriodExpiresDate)
            text.add(renewal.expirationIntent)
            text.add(renewal.priceIncreaseStatus)
        }
        return Array(SHA256.hash(data: text.bytes))
    }
}

/// A text of fields with their lengths, so that different lists of fields have different texts.
private struct CanonicalText {
    private(set) var bytes: [UInt8] = []

    init() {
        bytes.reserveCapacity(1024)
    }

    mutating func add(_ field: String?) {
        guard let field else {
            bytes.append(UInt8(ascii: "-"))
            return
        }
        bytes.append(contentsOf: String(field.utf8.count).utf8)
        bytes.append(UInt8(ascii: ":"))
        bytes.append(contentsOf: field.utf8)
    }

    mutating func add(_ field: Instant?) {
        add(field.map { String($0.milliseconds / 1000) })
    }

    mutating func add(_ field: Bool?) {
        add(field.map { $0 ? "1" : "0" })
    }

    mutating func add(_ field: Int?) {
        add(field.map { String($0) })
    }
}
